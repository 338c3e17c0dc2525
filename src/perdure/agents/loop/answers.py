"""Whether an answer is what was asked for: a JSON value of the wanted form, or at least some text. Pure but for the library that
checks a schema."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.base.errors import Refused

_MOST_FAULTS = 5
_LONGEST_FAULT = 200
EMPTY = "Your answer was empty. Say what you did and what came of it."


class BadSchema(Refused):
    """A schema for answers that is no JSON Schema."""

    code = "bad_schema"


def check_schema(schema: dict[str, Any]) -> None:
    """Raises `BadSchema` when answers cannot be checked by it."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise BadSchema(f"The schema for answers cannot be used: {error.message[:_LONGEST_FAULT]}") from error


def faults_of(text: str, schema: dict[str, Any] | None) -> list[str]:
    """What is wrong with an answer, in words for its author that hold nothing of the answer but where it is wrong."""
    if schema is None:
        return [] if text.strip() else [EMPTY]
    try:
        value = msgspec.json.decode(json_text(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ["The answer is not one JSON value alone."]
    from jsonschema import Draft202012Validator

    errors = sorted(Draft202012Validator(schema).iter_errors(value), key=lambda error: list(map(str, error.path)))
    return [_fault(error) for error in errors[:_MOST_FAULTS]]


def json_text(text: str) -> str:
    """The answer without the fence of a code block around all of it."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") + 1 : -3].strip()
    return stripped


def repair_request(faults: list[str], schema: dict[str, Any] | None) -> str:
    """What is said to a model whose answer will not do."""
    if schema is None:
        return faults[0]
    lines = "\n".join(f"- {each}" for each in faults)
    return (
        f"Your answer cannot be used:\n{lines}\n\nAnswer once more, with exactly one JSON value and nothing around it, of this "
        f"schema:\n{msgspec.json.encode(schema).decode()}"
    )


def instructions(schema: dict[str, Any]) -> str:
    """What is said with the task when an answer of a certain form is wanted."""
    return (
        "Your last message must be exactly one JSON value and nothing around it, of this schema:\n"
        f"{msgspec.json.encode(schema).decode()}"
    )


def _fault(error: Any) -> str:
    """Where, and which rule is broken. The value itself stays out of it, as it would get into logs."""
    wanted = (
        error.validator_value
        if error.validator in ("type", "required", "enum", "const", "minLength", "maxLength")
        else ""
    )
    place = error.json_path
    return f"{place}: breaks `{error.validator}` {wanted}".strip()[:_LONGEST_FAULT]
