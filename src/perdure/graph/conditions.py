"""Conditions of edges: parsed once, evaluated against an outcome and a context.

`||` over `&&` over `!` over comparisons `=`, `!=`, `>`, `<`, `>=`, `<=`, `contains`, `matches`, or a bare key, which is true when
it is there and neither empty, `false` nor `0`. There are no parentheses. A key that is missing is the empty text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON, encode
from perdure.graph.names import is_status, status_word

Lookup = Callable[[str], JSON]


class BadCondition(Refused):
    """A condition that cannot be read."""

    code = "bad_condition"


class Comparison(msgspec.Struct, frozen=True):
    """`key operator value`; the operator `true` asks whether the key holds anything."""

    key: str
    operator: str
    value: str


class Negation(msgspec.Struct, frozen=True):
    """`! inner`."""

    inner: Condition


class Both(msgspec.Struct, frozen=True):
    """`&&`."""

    parts: list[Condition]


class Either(msgspec.Struct, frozen=True):
    """`||`."""

    parts: list[Condition]


Condition: TypeAlias = Comparison | Negation | Both | Either

_QUOTED = r""""(?:[^"\\]|\\.)*"|'[^']*'"""
_OPERATOR = re.compile(r"(!=|>=|<=|==|=|>|<)|(?<=\s)(contains|matches)(?=\s)")
_KEY = re.compile(r"[A-Za-z_][\w.\-]*\Z")


def parse(text: str) -> Condition:
    """The condition. Raises `BadCondition` saying what is wrong."""
    if not text.strip():
        raise BadCondition("The condition is empty.")
    either = [_both(part, text) for part in _split(text, "||")]
    return either[0] if len(either) == 1 else Either(either)


def _both(text: str, whole: str) -> Condition:
    parts = [_term(part.strip(), whole) for part in _split(text, "&&")]
    return parts[0] if len(parts) == 1 else Both(parts)


def _split(text: str, operator: str) -> list[str]:
    """The parts between operators, those inside quotes not counted."""
    parts, start = [], 0
    for found in re.finditer(rf"{_QUOTED}|{re.escape(operator)}", text):
        if found[0] == operator:
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]]


def _term(text: str, whole: str) -> Condition:
    if not text:
        raise BadCondition(f"The condition {whole!r} has an operator without a side.")
    if text.startswith("!") and not text.startswith("!="):
        return Negation(_term(text[1:].strip(), whole))
    if "(" in text.split('"', maxsplit=1)[0] and not re.search(r"\bmatches\b", text):
        raise BadCondition(f"The condition {whole!r} has parentheses; there are none.")
    found = _OPERATOR.search(text)
    if found is None:
        return Comparison(_key(text, whole), "true", "")
    key = _key(text[: found.start()].strip(), whole)
    operator = "=" if found[0] == "==" else found[0]
    value = _unquoted(text[found.end() :].strip())
    if operator == "matches":
        try:
            re.compile(value)
        except re.error as error:
            raise BadCondition(f"The condition {whole!r} has a bad pattern: {error}.") from error
    return Comparison(key, operator, value)


def _key(text: str, whole: str) -> str:
    if not _KEY.match(text):
        raise BadCondition(f"The condition {whole!r} has {text!r} where a key should be.")
    return text


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1].replace('\\"', '"')
    return text


def evaluate(condition: Condition, lookup: Lookup) -> bool:
    """Whether it holds; `lookup` gives a key's value, None when it is missing."""
    if isinstance(condition, Either):
        return any(evaluate(part, lookup) for part in condition.parts)
    if isinstance(condition, Both):
        return all(evaluate(part, lookup) for part in condition.parts)
    if isinstance(condition, Negation):
        return not evaluate(condition.inner, lookup)
    return _compare(condition, lookup(condition.key))


def _compare(comparison: Comparison, found: JSON) -> bool:
    operator, wanted = comparison.operator, comparison.value
    text = as_text(found)
    if operator == "true":
        return text not in ("", "false", "0")
    if operator in ("=", "!="):
        same = text == wanted or (is_status(wanted) and status_word(text) == status_word(wanted))
        return same if operator == "=" else not same
    if operator == "contains":
        if isinstance(found, list):
            return any(as_text(item) == wanted for item in found)
        return wanted in text
    if operator == "matches":
        return re.search(wanted, text) is not None
    try:
        left, right = float(text), float(wanted)
    except ValueError:
        return False
    return {">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[operator]


def as_text(value: JSON) -> str:
    """A value as conditions compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else encode(value).decode()


def tested_outcomes(condition: Condition) -> list[str]:
    """The words that a condition compares the outcome with."""
    if isinstance(condition, (Either, Both)):
        return [word for part in condition.parts for word in tested_outcomes(part)]
    if isinstance(condition, Negation):
        return tested_outcomes(condition.inner)
    is_outcome = condition.key == "outcome" and condition.operator in ("=", "!=")
    return [condition.value] if is_outcome else []
