"""JSON Schemas for providers that hold an answer to one."""

from __future__ import annotations

from typing import Any

# Under these a value is a map from names to schemas, or a list of schemas.
_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")


def is_strict(schema: Any) -> bool:
    """Whether every object in the schema names all its properties as required and allows no others: what a strict mode asks for."""
    if not isinstance(schema, dict):
        return False
    if "properties" in schema or schema.get("type") == "object":
        names = set(schema.get("properties") or {})
        if schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != names:
            return False
    inner = [each for key in _MAPS if isinstance(schema.get(key), dict) for each in schema[key].values()]
    inner += [each for key in _LISTS for each in schema.get(key) or ()]
    if "items" in schema:
        inner.append(schema["items"])
    return all(is_strict(each) for each in inner)
