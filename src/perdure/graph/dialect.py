"""The two dialects. Each difference is one field here and one row in docs/graph-dialects.md."""

from typing import Literal

import msgspec


class Dialect(msgspec.Struct, frozen=True):
    """What a file's ending decides.

    `branch_walks`: a branch of a parallel node goes on to the fan-in, instead of executing one node.
    `backoff_ms`: the first wait of the default retry policy.
    `conditional_only`: how bad a node with conditional ways out only is.
    `all_operators`: conditions may use more than `=`, `!=` and `&&`.
    `retries_failures`: a failed attempt is tried again, not only one that asks for it.
    `exit_is_current`: the exit node is the last `current_node`.
    `thread_node_first`: a node's `thread_id` beats its edge's.
    `older_joins`: the join policies `k_of_n` and `quorum` and the error policies count.
    `implicit_nodes`: an edge may name a node that was never declared.
    """

    name: Literal["fabro", "attractor"]
    branch_walks: bool
    backoff_ms: int
    conditional_only: Literal["error", "warning"]
    all_operators: bool
    retries_failures: bool
    exit_is_current: bool
    thread_node_first: bool
    older_joins: bool
    implicit_nodes: Literal["error", "warning"]


FABRO = Dialect(
    name="fabro",
    branch_walks=False,
    backoff_ms=5_000,
    conditional_only="error",
    all_operators=True,
    retries_failures=False,
    exit_is_current=False,
    thread_node_first=False,
    older_joins=False,
    implicit_nodes="error",
)
ATTRACTOR = Dialect(
    name="attractor",
    branch_walks=True,
    backoff_ms=200,
    conditional_only="warning",
    all_operators=True,
    retries_failures=False,
    exit_is_current=True,
    thread_node_first=True,
    older_joins=True,
    implicit_nodes="error",
)


def dialect_of(path: str, named: str | None = None) -> Dialect:
    """The dialect by its name, else by the file's ending: `.dot` and `.gv` follow the Attractor specification."""
    if named == "attractor" or (named is None and path.endswith((".dot", ".gv"))):
        return ATTRACTOR
    return FABRO
