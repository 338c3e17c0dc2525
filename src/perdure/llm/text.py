"""Text and JSON between us and a provider: nothing that came, and nothing that we hold, breaks the wire.

Half of a surrogate pair is a text in Python and in JSON escapes, but no UTF-8; both ways it becomes U+FFFD.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotWhole(ValueError):
    """A text that should be JSON is not: it was cut, or is something else."""


def clean(value: Any) -> Any:
    """The JSON value with lone surrogates replaced in all texts and keys; the value itself when it has none."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {clean(key): clean(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(each) for each in value]
    return value


def parse(text: str) -> Any:
    """The JSON value of a text from a provider, clean. Raises `NotWhole`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotWhole(f"no whole JSON: {error}") from error
    return clean(value) if "\\u" in text else value


def parse_object(text: str) -> dict[str, Any]:
    """The same for an object. Raises `NotWhole` for any other value."""
    value = parse(text)
    if not isinstance(value, dict):
        raise NotWhole("JSON, but no object")
    return value


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one: foreign JSON may have any form."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none when it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def as_count(value: Any) -> int | None:
    """A number of tokens as it was reported, None when it is no whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def arguments_object(text: str) -> dict[str, Any]:
    """A tool call's arguments for a wire that takes an object only: what is none is kept under `arguments`."""
    try:
        return parse_object(text)
    except NotWhole:
        return {"arguments": clean(text)} if text.strip() else {}
