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

_SPACE = re.compile(r"\s*")
_KEY = re.compile(r"[A-Za-z_][\w.\-]*")
_OPERATOR = re.compile(r"\s*(!=|>=|<=|==|=|>|<|(?:contains|matches)(?=[\s\"']))\s*")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'")
_BARE = re.compile(r"(?:(?!&&|\|\|).)*", re.DOTALL)


def parse(text: str) -> Condition:
    """The condition. Raises `BadCondition` saying what is wrong."""
    if not text.strip():
        raise BadCondition("The condition is empty.")
    return _Reader(text).whole()


class _Reader:
    """One pass over a condition. Only a value that begins with a quote is quoted, so an apostrophe inside a word is a sign."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Condition:
        condition = self._either()
        if self._rest():
            raise self._bad(f"has {self._rest()[:30]!r} left over")
        return condition

    def _either(self) -> Condition:
        parts = [self._both()]
        while self._take("||"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Either(parts)

    def _both(self) -> Condition:
        parts = [self._term()]
        while self._take("&&"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else Both(parts)

    def _term(self) -> Condition:
        is_negated = False
        while self._take("!"):
            is_negated = not is_negated
        comparison = self._comparison()
        return Negation(comparison) if is_negated else comparison

    def _comparison(self) -> Condition:
        rest = self._rest()
        if not rest or rest.startswith(("&&", "||")):
            raise self._bad("has an operator without a side")
        if rest[0] in "()":
            raise self._bad("has parentheses; there are none")
        key = _KEY.match(self._text, self._at)
        if key is None:
            raise self._bad(f"has {rest[:30]!r} where a key should be")
        self._at = key.end()
        operator = _OPERATOR.match(self._text, self._at)
        if operator is None:
            if self._rest() and not self._rest().startswith(("&&", "||")):
                raise self._bad(f"has {self._rest()[:30]!r} where an operator should be")
            return Comparison(key[0], "true", "")
        self._at = operator.end()
        value = self._value()
        if operator[1] == "matches":
            try:
                re.compile(value)
            except re.error as error:
                raise self._bad(f"has a bad pattern: {error}") from error
        return Comparison(key[0], "=" if operator[1] == "==" else operator[1], value)

    def _value(self) -> str:
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            return quoted[2] if quoted[1] is None else re.sub(r"\\([\"\\])", r"\1", quoted[1])
        if self._text.startswith('"', self._at):
            raise self._bad("has a quoted value without an end")
        bare = _BARE.match(self._text, self._at)
        raw = bare[0] if bare else ""
        self._at += len(raw)
        return raw.strip()

    def _rest(self) -> str:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._text[self._at :]

    def _take(self, sign: str) -> bool:
        if not self._rest().startswith(sign):
            return False
        self._at += len(sign)
        return True

    def _bad(self, what: str) -> BadCondition:
        return BadCondition(f"The condition {self._text!r} {what}.")


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
