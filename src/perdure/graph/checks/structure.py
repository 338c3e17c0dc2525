"""Checks of the graph's shape: where it begins and ends, what can be reached, what names can be files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from perdure.graph.diagnostics import Diagnostic, error, warning
from perdure.graph.dialect import Dialect
from perdure.graph.model import Graph

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_RESERVED = frozenset({"graph", "digraph", "subgraph", "node", "edge", "strict", "if"})


def start_node(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """There is exactly one start."""
    starts = graph.by_handler("start")
    if len(starts) != 1:
        names = ", ".join(node.id for node in starts) or "none"
        yield error("start_node", f"a graph has exactly one start; here: {names}.", fix="Give one node shape=Mdiamond.")


def terminal_node(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """There is exactly one exit."""
    ends = graph.by_handler("exit")
    if len(ends) != 1:
        names = ", ".join(node.id for node in ends) or "none"
        yield error(
            "terminal_node", f"a graph has exactly one exit; here: {names}.", fix="Give one node shape=Msquare."
        )


def start_no_incoming(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Nothing leads to the start."""
    for node in graph.by_handler("start"):
        for edge in graph.incoming(node.id):
            yield error(
                "start_no_incoming",
                f"the start {node.id} has an edge from {edge.source}.",
                node_id=node.id,
                line=edge.line,
            )


def exit_no_outgoing(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Nothing leads from the exit."""
    for node in graph.by_handler("exit"):
        for edge in graph.outgoing(node.id):
            yield error(
                "exit_no_outgoing", f"the exit {node.id} has an edge to {edge.target}.", node_id=node.id, line=edge.line
            )


def reachability(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Every node can be reached from the start."""
    seen = {node.id for node in graph.by_handler("start")}
    if not seen:
        return
    targets = {
        str(holder.attrs[key]) for holder in [graph, *graph.nodes.values()] for key in _TARGETS if key in holder.attrs
    }
    ways: dict[str, list[str]] = {}
    for edge in graph.edges:
        ways.setdefault(edge.source, []).append(edge.target)
    waiting = [*seen, *(target for target in targets if target in graph.nodes)]
    seen.update(waiting)
    while waiting:
        for target in ways.get(waiting.pop(), ()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    for node in graph.nodes.values():
        if node.id not in seen:
            yield warning(
                "reachability", f"node {node.id} cannot be reached from the start.", node_id=node.id, line=node.line
            )


_TARGETS = ("retry_target", "fallback_retry_target")


def node_ids(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Ids are words, and none is a word of the language."""
    for node in graph.nodes.values():
        if not _ID.match(node.id):
            yield error(
                "node_id_valid",
                f"{node.id!r} cannot be a node's id: letters, digits and '_', not beginning with a digit.",
                node_id=node.id,
                line=node.line,
            )
        if node.id.lower() in _RESERVED:
            yield warning(
                "reserved_keyword_node_id",
                f"node {node.id} is named like a word of the language.",
                node_id=node.id,
                line=node.line,
            )


def case_collision(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """No two ids become one file name on a disk that is blind to case or normal forms."""
    seen: dict[str, str] = {}
    for node in graph.nodes.values():
        folded = unicodedata.normalize("NFC", node.id).casefold()
        if folded in seen:
            yield error(
                "case_collision",
                f"nodes {seen[folded]!r} and {node.id!r} would share one folder on some disks.",
                node_id=node.id,
                fix="Rename one.",
                line=node.line,
            )
        seen[folded] = node.id


CHECKS = (
    start_node, terminal_node, start_no_incoming, exit_no_outgoing, reachability, node_ids, case_collision,
)  # fmt: skip
