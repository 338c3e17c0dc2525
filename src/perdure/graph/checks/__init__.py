"""Checks of a graph: one function a rule. Errors stop a run, warnings do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
    return sorted(found, key=lambda each: {"error": 0, "warning": 1, "info": 2}[each.severity])
