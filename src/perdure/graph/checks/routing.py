"""Checks of the ways through the graph: conditions, gates, targets, branches."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.graph.conditions import BadCondition, parse, tested_outcomes
from perdure.graph.diagnostics import Diagnostic, error, warning
from perdure.graph.dialect import Dialect
from perdure.graph.model import Graph
from perdure.graph.names import is_status


def condition_syntax(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Conditions can be read."""
    for edge in graph.edges:
        if "condition" not in edge.attrs or not edge.condition:
            continue
        try:
            parse(edge.condition)
        except BadCondition as problem:
            yield error("condition_syntax", str(problem), edge=(edge.source, edge.target), line=edge.line)


def retry_target_exists(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Targets of retries are nodes."""
    for holder in [graph, *graph.nodes.values()]:
        for key in ("retry_target", "fallback_retry_target"):
            target = str(holder.attrs.get(key, ""))
            if target and target not in graph.nodes:
                node_id = getattr(holder, "id", None)
                yield warning("retry_target_exists", f"{key} {target!r} is no node.", node_id=node_id)


def goal_gate_has_retry(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """A goal gate has somewhere to go when it fails."""
    if graph.text("retry_target") or graph.text("fallback_retry_target"):
        return
    for node in graph.nodes.values():
        if node.flag("goal_gate") and not node.text("retry_target") and not node.text("fallback_retry_target"):
            yield warning(
                "goal_gate_has_retry",
                f"goal gate {node.id} has no retry_target: when it fails, the run fails.",
                node_id=node.id,
                line=node.line,
            )


def freeform_edge_count(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """A human gate has at most one edge for free text."""
    for node in graph.by_handler("human"):
        count = sum(edge.flag("freeform") for edge in graph.outgoing(node.id))
        if count > 1:
            yield error(
                "freeform_edge_count", f"gate {node.id} has {count} freeform edges; one at most.", node_id=node.id
            )


def all_conditional_edges(graph: Graph, dialect: Dialect) -> Iterator[Diagnostic]:
    """Some way out has no condition."""
    for node in graph.nodes.values():
        edges = graph.outgoing(node.id)
        if edges and all(edge.condition for edge in edges) and not _covers_all(graph, node.id):
            make = error if dialect.conditional_only == "error" else warning
            yield make(
                "all_conditional_edges",
                f"every edge from {node.id} has a condition, so there may be no way on.",
                node_id=node.id,
                fix="Add an edge without a condition.",
                line=node.line,
            )


def _covers_all(graph: Graph, node_id: str) -> bool:
    """Whether the conditions are the two plain outcomes, one of which always holds."""
    words = {edge.condition.replace(" ", "") for edge in graph.outgoing(node_id)}
    good = {"outcome=success", "outcome=succeeded", "outcome!=fail", "outcome!=failed"}
    bad = {"outcome!=success", "outcome!=succeeded", "outcome=fail", "outcome=failed"}
    return bool(words & good) and bool(words & bad)


def orphan_custom_outcome(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """A tested outcome is one that something yields."""
    for edge in graph.edges:
        try:
            words = tested_outcomes(parse(edge.condition)) if edge.condition else []
        except BadCondition:
            continue
        for word in words:
            if not is_status(word):
                yield warning(
                    "orphan_custom_outcome",
                    f"nothing yields the outcome {word!r} of the edge {edge.source} -> {edge.target}.",
                    edge=(edge.source, edge.target),
                    line=edge.line,
                )


def random_selection(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """A random choice is among plain edges."""
    for node in graph.nodes.values():
        selection = node.text("selection")
        if selection not in ("deterministic", "random"):
            yield warning(
                "selection_valid", f"node {node.id} has the unknown selection {selection!r}.", node_id=node.id
            )
        if selection == "random" and any(edge.condition for edge in graph.outgoing(node.id)):
            yield error(
                "random_selection_no_conditions",
                f"node {node.id} draws at random, but has conditional edges.",
                node_id=node.id,
            )


def parallel_branch(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """A parallel node has branches, and they meet."""
    for node in graph.by_handler("parallel"):
        edges = graph.outgoing(node.id)
        if not edges:
            yield error("parallel_branch", f"parallel node {node.id} has no branches.", node_id=node.id, line=node.line)


CHECKS = (
    condition_syntax, retry_target_exists, goal_gate_has_retry, freeform_edge_count, all_conditional_edges,
    orphan_custom_outcome, random_selection, parallel_branch,
)  # fmt: skip
