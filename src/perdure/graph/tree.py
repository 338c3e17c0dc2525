"""The syntax tree of a graph file: what was written, in its order, before anything is made of it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

import msgspec

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)\Z")
_INTEGER = re.compile(r"-?\d+\Z")
_FLOAT = re.compile(r"-?(?:\d+\.\d*|\.\d+|\d+(?:\.\d*)?[eE][+-]?\d+)\Z")


class Duration(msgspec.Struct, frozen=True):
    """A time span: in milliseconds, and as it was written."""

    ms: int
    text: str


class Word(msgspec.Struct, frozen=True):
    """A bare word."""

    text: str


Value: TypeAlias = "str | int | float | bool | Duration | Word"


class Attribute(msgspec.Struct, frozen=True):
    """`key = value`, and where it stands."""

    key: str
    value: Value
    offset: int


class GraphAttributes(msgspec.Struct, frozen=True):
    """`graph [...]`, or `key = value` by itself (`is_declaration`)."""

    attributes: list[Attribute]
    is_declaration: bool = False


class Defaults(msgspec.Struct, frozen=True):
    """`node [...]` or `edge [...]`."""

    of: str
    attributes: list[Attribute]


class NodeStatement(msgspec.Struct, frozen=True):
    """A node with its attributes."""

    id: str
    attributes: list[Attribute]
    offset: int


class EdgeStatement(msgspec.Struct, frozen=True):
    """A chain of edges; each end is one node or several."""

    ends: list[list[str]]
    attributes: list[Attribute]
    offset: int


class Subgraph(msgspec.Struct, frozen=True):
    """A group of statements with defaults of its own."""

    name: str | None
    statements: list[Statement]
    offset: int


Statement: TypeAlias = GraphAttributes | Defaults | NodeStatement | EdgeStatement | Subgraph


class Tree(msgspec.Struct, frozen=True):
    """A whole file."""

    name: str
    statements: list[Statement]


def parse_duration(text: str) -> Duration | None:
    """A time span like `900s` or `1.5h`; None when the text is none."""
    found = _DURATION.match(text)
    return Duration(round(float(found[1]) * _UNITS[found[2]]), text) if found else None


@lru_cache(maxsize=1024)
def word_value(text: str) -> Value:
    """What a bare word means as a value."""
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    return parse_duration(text) or Word(text)


def to_json(tree: Tree) -> dict[str, object]:
    """The tree as `perdure parse` prints it: each statement and value under its kind."""
    return {"name": tree.name, "statements": [_statement(each) for each in tree.statements]}


def _statement(statement: Statement) -> dict[str, object]:
    if isinstance(statement, GraphAttributes):
        if statement.is_declaration:
            [only] = statement.attributes
            return {"GraphAttrDecl": {"key": only.key, "value": _value(only.value)}}
        return {"GraphAttr": {"attrs": _attributes(statement.attributes)}}
    if isinstance(statement, Defaults):
        return {f"{statement.of.capitalize()}Defaults": {"attrs": _attributes(statement.attributes)}}
    if isinstance(statement, NodeStatement):
        return {"Node": {"id": statement.id, "attrs": _attributes(statement.attributes)}}
    if isinstance(statement, EdgeStatement):
        ends = [end[0] if len(end) == 1 else end for end in statement.ends]
        return {"Edge": {"nodes": ends, "attrs": _attributes(statement.attributes)}}
    inner = [_statement(each) for each in statement.statements]
    return {"Subgraph": {"name": statement.name, "statements": inner}}


def _attributes(attributes: list[Attribute]) -> dict[str, object]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Value) -> dict[str, object]:
    if isinstance(value, bool):
        return {"Bool": value}
    if isinstance(value, int):
        return {"Int": value}
    if isinstance(value, float):
        return {"Float": value}
    if isinstance(value, Duration):
        return {"Duration": value.text}
    if isinstance(value, Word):
        return {"Ident": value.text}
    return {"Str": value}
