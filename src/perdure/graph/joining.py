"""When the branches of a parallel node are enough, what they come to together, and where they meet: pure decisions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from perdure.graph.dialect import Dialect
    from perdure.graph.model import Graph, Node

POLICIES = ("wait_all", "first_success", "k_of_n", "quorum")
ERROR_POLICIES = ("continue", "fail_fast", "ignore")
EVERYWHERE = ("wait_all", "first_success")

Verdict = Literal["succeeded", "partially_succeeded", "failed"]


class Join(msgspec.Struct, frozen=True):
    """How the branches of one node are joined. `needed` successes are enough; None waits for all branches, whatever they come to."""

    policy: str = "wait_all"
    errors: str = "continue"
    needed: int | None = None

    def is_enough(self, good: int, bad: int) -> bool:
        """Whether the other branches need not end any more."""
        return (self.needed is not None and good >= self.needed) or (self.errors == "fail_fast" and bad > 0)

    def verdict(self, good: int, bad: int) -> Verdict:
        """What the branches that ended come to together."""
        if self.errors == "fail_fast" and bad and not (self.needed is not None and good >= self.needed):
            return "failed"
        if good < (self.needed or 1):
            return "failed"
        is_partial = bad > 0 and self.needed is None and self.errors != "ignore"
        return "partially_succeeded" if is_partial else "succeeded"


def join_for(node: Node, branches: int, dialect: Dialect) -> Join:
    """How a parallel node of so many branches joins them. Words that the dialect does not know count as the defaults."""
    policy = node.text("join_policy")
    if policy not in (POLICIES if dialect.older_joins else EVERYWHERE):
        policy = "wait_all"
    errors = node.text("error_policy") if dialect.older_joins else ""
    if errors not in ERROR_POLICIES:
        errors = "continue"
    needed = None
    if policy == "first_success":
        needed = 1
    elif policy == "k_of_n":
        # Without a number all must succeed: a join that lets too little through is noticed, one that lets too much is not.
        wanted = node.integer("join_k") or node.integer("k")
        needed = branches if wanted is None or wanted < 1 else wanted
    elif policy == "quorum":
        needed = max(1, math.ceil(branches * quorum_of(node)))
    return Join(policy, errors, needed)


def quorum_of(node: Node) -> float:
    """The part of the branches that must succeed, more than 0 and at most 1; a half when the node does not say."""
    for name in ("quorum_fraction", "join_quorum"):
        if name in node.attrs:
            found = node.number(name)
            return found if 0 < found <= 1 else 1.0
    return 0.5


def join_of(graph: Graph, node: Node, *, walks: bool) -> str | None:
    """Where the branches meet: the fan-in that all can reach first, else the node that all targets lead to."""
    targets = [edge.target for edge in graph.outgoing(node.id)]
    reach = [_distances(graph, target) for target in targets]
    common = set(reach[0]).intersection(*reach[1:]) - (set() if walks else set(targets)) if reach else set()
    if not common:
        return None
    fan_ins = {each for each in common if graph.nodes[each].handler == "parallel.fan_in"}
    candidates = fan_ins or common
    return min(candidates, key=lambda each: (max(distances[each] for distances in reach), each))


def _distances(graph: Graph, start: str) -> dict[str, int]:
    """How far each node is that can be reached."""
    found = {start: 0}
    waiting = [start]
    for current in waiting:
        for edge in graph.outgoing(current):
            if edge.target not in found and edge.target in graph.nodes:
                found[edge.target] = found[current] + 1
                waiting.append(edge.target)
    return found
