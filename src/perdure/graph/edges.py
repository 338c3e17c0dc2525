"""Which edge is taken after a node: a pure choice.

In order: edges whose condition holds; the label that the outcome prefers; the nodes that it suggests; an unconditional edge. Among
several the heaviest, then the first target by name. A jump in the outcome beats all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from perdure.graph.conditions import BadCondition, Condition, Lookup, evaluate, parse
from perdure.graph.model import Edge

Reason = Literal["condition", "preferred_label", "suggested_next", "unconditional", "jump"]


class Choice(msgspec.Struct, frozen=True):
    """The edge that is taken, and why. A jump has a target and no edge."""

    target: str
    reason: Reason
    edge: Edge | None = None


def choose_edge(
    edges: Sequence[Edge],
    lookup: Lookup,
    *,
    preferred_label: str | None = None,
    suggested: Sequence[str] = (),
    jump: str | None = None,
    share: float | None = None,
    unconditional: bool = True,
) -> Choice | None:
    """The way on; None when there is none.

    `share` from 0 to 1 draws the unconditional edge by weight. With `unconditional` off a plain edge is no way on, so that a
    failure does not slip through; only one to a node that routes on the outcome (a diamond with conditions) still is.
    """
    if jump is not None:
        return Choice(jump, "jump")
    holding = [edge for edge in edges if edge.condition and holds(edge, lookup)]
    if holding:
        return _taken(_best(holding), "condition")
    plain = [edge for edge in edges if not edge.condition]
    if not unconditional:
        plain = [edge for edge in plain if edge.leads_to_router]
    wished = _wished(plain, preferred_label, suggested)
    if wished is not None:
        return wished
    if not plain:
        return None
    return _taken(_best(plain) if share is None else _drawn(plain, share), "unconditional")


def _wished(plain: Sequence[Edge], preferred_label: str | None, suggested: Sequence[str]) -> Choice | None:
    """The edge that the outcome itself names: by its label, else by its target."""
    if preferred_label:
        wanted = normalised(preferred_label)
        for edge in plain:
            if edge.label and normalised(edge.label) == wanted:
                return _taken(edge, "preferred_label")
    for target in suggested:
        for edge in plain:
            if edge.target == target:
                return _taken(edge, "suggested_next")
    return None


def holds(edge: Edge, lookup: Lookup) -> bool:
    """Whether the edge's condition holds; one that cannot be read does not."""
    condition = _parsed(edge.condition)
    return condition is not None and evaluate(condition, lookup)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Condition | None:
    """The condition, parsed once for all visits; None when it cannot be read."""
    try:
        return parse(text)
    except BadCondition:
        return None


def normalised(label: str) -> str:
    """A label without case, outer spaces and the key that a person types for it."""
    return split_label(label)[1].strip().lower()


def split_label(label: str) -> tuple[str, str]:
    """The key that a label names (`[K] text`, `K) text`, `K - text`; else its first letter) and its text."""
    text = label.strip()
    if text.startswith("[") and "]" in text[:12]:
        key, _, rest = text[1:].partition("]")
        return key.strip(), rest.strip() or key.strip()
    for mark in (")", " - "):
        key, found, rest = text.partition(mark)
        if found and 0 < len(key.strip()) <= 3 and key.strip().isalnum() and rest.strip():
            return key.strip(), rest.strip()
    return text[:1].upper(), text


def _best(edges: Sequence[Edge]) -> Edge:
    return min(edges, key=lambda edge: (-edge.weight, edge.target))


def _drawn(edges: Sequence[Edge], share: float) -> Edge:
    ordered = sorted(edges, key=lambda edge: edge.target)
    weights = [edge.weight if edge.weight > 0 else 1 for edge in ordered]
    left = share * sum(weights)
    for edge, weight in zip(ordered, weights, strict=True):
        left -= weight
        if left < 0:
            return edge
    return ordered[-1]


def _taken(edge: Edge, reason: Reason) -> Choice:
    return Choice(edge.target, reason, edge)
