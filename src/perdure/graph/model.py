"""The graph that is run: nodes, edges and their attributes, with every default and every older name resolved."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from perdure.base.jsonvalue import digest
from perdure.graph.attributes import ATTRIBUTES, DRAWING
from perdure.graph.tree import Duration, Value, Word, parse_duration

Plain: TypeAlias = "str | int | float | bool | Duration"

SHAPES = {
    "mdiamond": "start",
    "msquare": "exit",
    "box": "agent",
    "tab": "prompt",
    "parallelogram": "command",
    "hexagon": "human",
    "diamond": "conditional",
    "component": "parallel",
    "tripleoctagon": "parallel.fan_in",
    "insulator": "wait",
    "house": "stack.manager_loop",
}
HANDLERS = frozenset(SHAPES.values())


class Attributes(msgspec.Struct):
    """Attributes by name, read by the kind that the reader wants."""

    attrs: dict[str, Plain] = {}

    def text(self, name: str) -> str:
        """The attribute as text, its default when it is not there."""
        value = self.attrs.get(name)
        if value is None:
            return str(_default(name) or "")
        return as_text(value)

    def integer(self, name: str) -> int | None:
        """The attribute as a whole number; its default when it is not there or no number."""
        value = self.attrs.get(name)
        if isinstance(value, bool) or value is None:
            found = _default(name)
        elif isinstance(value, str):
            found = int(value) if value.strip().lstrip("-").isdigit() else _default(name)
        else:
            found = value if not isinstance(value, Duration) else value.ms
        return None if found is None else int(found)

    def number(self, name: str) -> float:
        """The attribute as a number, 0 when it is none."""
        try:
            return float(self.text(name) or 0)
        except ValueError:
            return 0.0

    def flag(self, name: str) -> bool:
        """The attribute as yes or no."""
        value = self.attrs.get(name)
        if value is None:
            return bool(_default(name))
        if isinstance(value, str):
            return value.strip().lower() in ("true", "yes", "1")
        return bool(value)

    def duration_ms(self, name: str) -> int | None:
        """The attribute as milliseconds. A bare number means seconds; quoted durations count."""
        value = self.attrs.get(name)
        if value is None:
            found = _default(name)
            return None if found is None else int(found)
        return as_duration_ms(value)


class Node(Attributes):
    """A spot in the graph. `classes` come from `class`, from subgraphs and from imports; `line` is where it stands."""

    id: str = ""
    classes: list[str] = []
    line: int | None = None

    @property
    def label(self) -> str:
        """The name for people."""
        return self.text("label") or self.id

    @property
    def handler(self) -> str:
        """Which handler runs the node: its `type`, else by its shape, else an agent."""
        named = self.text("type")
        if named in HANDLERS:
            return named
        shape = self.text("shape").lower()
        if "shape" not in self.attrs and not named:
            if self.id in ("start", "Start"):
                return "start"
            if self.id in ("exit", "Exit", "end", "End"):
                return "exit"
            if self.text("script"):
                return "command"
        return SHAPES.get(shape, "agent")


class Edge(Attributes):
    """A way from one node to another. `leads_to_router` says that its target only routes on the outcome before it."""

    source: str = ""
    target: str = ""
    line: int | None = None
    leads_to_router: bool = False

    @property
    def label(self) -> str:
        """What the choice is called."""
        return self.text("label")

    @property
    def condition(self) -> str:
        """When the edge may be taken; "" is always."""
        return self.text("condition").strip()

    @property
    def weight(self) -> int:
        """Which of several edges is taken: the heavier."""
        return self.integer("weight") or 0


class Graph(Attributes, dict=True):
    """A whole graph."""

    name: str = ""
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []

    @property
    def goal(self) -> str:
        """What it is for, as the file says."""
        return self.text("goal")

    def outgoing(self, node_id: str) -> list[Edge]:
        """The edges that leave a node, in their order."""
        return list(self._ends()[0].get(node_id, ()))

    def incoming(self, node_id: str) -> list[Edge]:
        """The edges that reach a node, in their order."""
        return list(self._ends()[1].get(node_id, ()))

    def _ends(self) -> tuple[dict[str, list[Edge]], dict[str, list[Edge]]]:
        """The edges by source and by target, made again when the list of edges is another or has grown."""
        known = self.__dict__.get("ends")
        if known is None or known[0] is not self.edges or known[1] != len(self.edges):
            leaving: dict[str, list[Edge]] = {}
            reaching: dict[str, list[Edge]] = {}
            for edge in self.edges:
                leaving.setdefault(edge.source, []).append(edge)
                reaching.setdefault(edge.target, []).append(edge)
            known = self.__dict__["ends"] = (self.edges, len(self.edges), leaving, reaching)
        return known[2], known[3]

    def by_handler(self, handler: str) -> list[Node]:
        """The nodes that a handler runs."""
        return [node for node in self.nodes.values() if node.handler == handler]

    def to_json(self) -> dict[str, Any]:
        """The graph as `run.json` shows it."""
        return {
            "name": self.name,
            "attrs": _tagged(self.attrs),
            "nodes": {
                node.id: {"id": node.id, "attrs": _tagged(node.attrs), "classes": node.classes}
                for node in self.nodes.values()
            },
            "edges": [{"from": e.source, "to": e.target, "attrs": _tagged(e.attrs)} for e in self.edges],
        }

    def digest(self) -> str:
        """Equal for graphs that mean the same, however they were written or are drawn."""
        shown = self.to_json()
        for holder in (shown, *shown["nodes"].values(), *shown["edges"]):
            holder["attrs"] = {key: value for key, value in holder["attrs"].items() if has_meaning(key)}
        shown["edges"] = sorted(shown["edges"], key=digest)
        return digest(shown)


def has_meaning(attribute: str) -> bool:
    """Whether an attribute may change what a run does: not one that a graph is only drawn with."""
    return attribute not in DRAWING and attribute != "rankdir"


def _default(name: str) -> str | int | float | bool | None:
    known = ATTRIBUTES.get(name)
    return known.default if known else None


def as_text(value: Plain) -> str:
    """An attribute's value as text."""
    if isinstance(value, Duration):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def as_duration_ms(value: Plain) -> int | None:
    """An attribute's value as milliseconds; None when it is no time span."""
    if isinstance(value, Duration):
        return value.ms
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return round(value * 1000)
    found = parse_duration(value.strip())
    if found is not None:
        return found.ms
    return round(float(value) * 1000) if value.strip().replace(".", "", 1).isdigit() else None


def plain(value: Value) -> Plain:
    """A value of the tree as the graph holds it."""
    return value.text if isinstance(value, Word) else value


def _tagged(attrs: dict[str, Plain]) -> dict[str, Any]:
    return {key: _tag(value) for key, value in sorted(attrs.items())}


def _tag(value: Plain) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"Boolean": value}
    if isinstance(value, int):
        return {"Integer": value}
    if isinstance(value, float):
        return {"Float": value}
    if isinstance(value, Duration):
        return {"Duration": value.text}
    return {"String": value}
