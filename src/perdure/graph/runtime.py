"""What the interpreter and its nodes share in one process: the graph, the state, the places where nodes work."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.disk.atomic import private_folder
from perdure.graph.budgets import Spent
from perdure.graph.context import State
from perdure.graph.hooks import Hooks

if TYPE_CHECKING:
    from perdure.graph.definition import GraphDefinition
    from perdure.graph.model import Edge, Graph, Node
    from perdure.graph.options import Options
    from perdure.kernel.context import OperationContext


class Place(msgspec.Struct):
    """Where nodes run: the main line, or one branch of a parallel node with a state and perhaps a worktree of its own.

    `path` is the id of the scope, "" for the main line; `edge` the edge by which the next node is reached; `captured` says which
    contents of which files were captured here.
    """

    path: str
    state: State
    work_dir: str
    worktree: str = ""
    edge: Any = None
    captured: set[str] = set()


class Runtime:
    """One interpretation of one graph run."""

    def __init__(self, definition: GraphDefinition, run_dir: str, run_id: str, started: dict[str, Any]) -> None:
        self.definition = definition
        self.graph: Graph = definition.graph
        self.options: Options = definition.options
        self.dialect = definition.dialect
        self.run_dir = run_dir
        self.run_id = run_id
        self.git = bool(started.get("base_sha")) and definition.options.git == "worktree"
        self.base_sha: str = str(started.get("base_sha") or "")
        self.repository = str(started.get("repository") or "")
        self.worktree = os.path.join(run_dir, "worktree")
        self.subfolder = str(started.get("subfolder") or ".")
        work_dir = self.inside(self.worktree) if self.git else definition.options.working_directory
        state = State(self.graph, run_id, work_dir, definition.options.goal, dict(definition.options.inputs))
        self.main = Place("", state, work_dir, self.worktree if self.git else "")
        self.places: dict[str, Place] = {"": self.main}
        self.conversations: dict[str, list[Any]] = {}
        self.hooks = Hooks(self)
        self.spent = Spent(definition.options)
        self.captures_since_ns = 0
        self.current: Node | None = None
        self.index = 0

    @property
    def stall_ms(self) -> int:
        """How long nothing may happen now: the present node says, else the graph; 0 is for ever."""
        if self.current is not None and "stall_timeout" in self.current.attrs:
            return self.current.duration_ms("stall_timeout") or 0
        return self.graph.duration_ms("stall_timeout") or 0

    @cached_property
    def remaining(self) -> dict[str, int]:
        """How long the way is that follows each node."""
        from perdure.graph.distance import remaining_path

        return remaining_path(self.graph)

    def inside(self, worktree: str) -> str:
        """The working folder in a worktree: where it lies in the repository."""
        return os.path.normpath(os.path.join(worktree, self.subfolder))

    @property
    def state(self) -> State:
        """The main line's state."""
        return self.main.state


class Visit(msgspec.Struct):
    """One attempt of one visit of a node, as its handler sees it."""

    op: Any
    node: Any
    runtime: Any
    place: Any
    number: int

    @property
    def context(self) -> OperationContext:
        """What an operation may do."""
        found: OperationContext = self.op
        return found

    @property
    def edge(self) -> Edge | None:
        """The edge by which the node was reached."""
        found: Edge | None = self.place.edge
        return found

    def spool(self, name: str) -> str:
        """A path for output that comes before it is recorded, of this attempt alone."""
        from perdure.base.names import file_name

        folder = os.path.join(self.runtime.run_dir, "cache", "spool")
        private_folder(folder)
        return os.path.join(folder, f"{file_name(self.op.step_id)}.{self.op.attempt}.{name}")


def node_of(graph: Graph, node_id: str) -> Node:
    """The node of that id. Raises `Refused` when an edit took it away."""
    from perdure.base.errors import Refused

    found = graph.nodes.get(node_id)
    if found is None:
        raise Refused(f"The graph has no node {node_id!r} any more.", hint="Resume with the recorded graph.")
    return found
