"""Checks of a graph: one function a rule. Errors stop a run, warnings do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from perdure.graph.diagnostics import Diagnostic
from perdure.graph.dialect import Dialect
from perdure.graph.model import Graph

Check = Callable[[Graph, Dialect], Iterable[Diagnostic]]

_more: list[Check] = []


def add_check(check: Check) -> Check:
    """Have every graph checked by one more rule."""
    _more.append(check)
    return check


def run_checks(graph: Graph, dialect: Dialect) -> list[Diagnostic]:
    """Every finding, errors first."""
    from perdure.graph.checks import attributes, routing, structure

    found: list[Diagnostic] = []
    for check in [*structure.CHECKS, *routing.CHECKS, *attributes.CHECKS, *_more]:
        found.extend(check(graph, dialect))
    found = [_placed(each, graph) for each in found]
    return sorted(found, key=lambda each: {"error": 0, "warning": 1, "info": 2}[each.severity])


def _placed(found: Diagnostic, graph: Graph) -> Diagnostic:
    """The finding with its node's line, when the check did not say another."""
    node = graph.nodes.get(found.node_id) if found.node_id is not None and found.line is None else None
    return found if node is None else msgspec.structs.replace(found, line=node.line)
