"""The shared key-value map of a run, and where a run stands in its graph. Rebuilt from recorded outcomes at every replay."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.base.jsonvalue import JSON, encode
from perdure.graph.conditions import as_text
from perdure.graph.model import Graph
from perdure.graph.model import as_text as attribute_text
from perdure.graph.outcome import NodeOutcome

MAX_INLINE = 100 * 1024
HIDDEN = ("internal.", "current", "graph.", "thread.", "response.")


class StageRecord(msgspec.Struct, frozen=True):
    """One visit that ended, for preambles and the retrospective."""

    step: str
    node_id: str
    label: str
    handler: str
    status: str
    notes: str | None
    failure: str | None
    retries: int
    duration_ms: int
    files_touched: list[str]
    detail: str
    cost: float | None = None


class State:
    """Where a run stands: context, visits, outcomes, failure counts."""

    def __init__(self, graph: Graph, run_id: str, work_dir: str, goal: str, given: dict[str, Any]) -> None:
        self.graph = graph
        self.goal = goal
        self._fixed = {"internal.run_id": run_id, "internal.work_dir": work_dir, "graph.goal": goal}
        for key, value in graph.attrs.items():
            self._fixed.setdefault(f"graph.{key}", attribute_text(value))
        self._given = given
        self.context: dict[str, Any] = self._fixed | given
        self.visits: dict[str, int] = {}
        self.outcomes: dict[str, str] = {}
        self.completed: list[str] = []
        self.retries: dict[str, int] = {}
        self.loop_signatures: dict[str, int] = {}
        self.restart_signatures: dict[str, int] = {}
        self.stages: list[StageRecord] = []
        self.branches: list[StageRecord] = []
        self.last_node: str | None = None
        # By thread: how an agent goes on in its conversation, and which kind of backend can.
        self.conversations: dict[str, JSON] = {}
        self.changed: dict[str, Any] = dict(self.context)

    def set(self, updates: dict[str, Any]) -> None:
        """Put values into the context."""
        self.context.update(updates)
        self.changed.update(updates)

    def restart(self) -> None:
        """Begin again: a fresh context; visit counts and failure counts stay."""
        self.context = self._fixed | self._given
        self.changed = dict(self.context)
        self.outcomes = {}
        self.completed = []
        self.retries = {}
        self.conversations = {}

    def take(self, node_id: str, outcome: NodeOutcome) -> None:
        """What a node's outcome means for the rest of the run."""
        self.set(dict(outcome.context_updates))
        node = self.graph.nodes.get(node_id)
        if node is None or node.handler != "conditional":
            # A conditional node does no work: its edges ask for the outcome of the node before it.
            self.set(
                {
                    "outcome": outcome.status,
                    "preferred_label": outcome.preferred_label or "",
                    "failure_class": outcome.failure.failure_class if outcome.failure else "",
                }
            )
        self.set({"current_node": node_id})
        self.outcomes[node_id] = outcome.status
        self.completed.append(node_id)
        if outcome.retries or node_id in self.retries:
            self.retries[node_id] = outcome.retries
            self.set({f"internal.retry_count.{node_id}": outcome.retries})
        self.last_node = node_id
        if outcome.conversation is not None:
            self.conversations[str(outcome.context_updates.get("internal.thread_id"))] = outcome.conversation

    def lookup(self, key: str) -> JSON:
        """A key of a condition: `context.X` is sought as written, then as `X`."""
        return look_up(self.context, key)

    def take_changes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What changed in the context since this was last asked: as the checkpoint shows it, and the values too large for it."""
        shown: dict[str, Any] = {}
        large: dict[str, Any] = {}
        for key, value in self.changed.items():
            if isinstance(value, (str, list, dict)) and len(encode(value)) > MAX_INLINE:
                from perdure.base.names import file_name

                large[key] = value
                shown[key] = f"file://cache/artifacts/values/{file_name(key)}.json"
            else:
                shown[key] = value
        self.changed = {}
        return shown, large


def look_up(context: dict[str, Any], key: str) -> JSON:
    """A key's value, None when it is missing."""
    if key in context:
        found: JSON = context[key]
        return found
    short = key.removeprefix("context.")
    return context.get(short)


def visible(context: dict[str, Any]) -> dict[str, str]:
    """What an agent may see of the context."""
    routing = {"outcome", "preferred_label", "failure_class", "failure_signature", "last_stage", "last_response"}
    return {
        key: as_text(value)
        for key, value in context.items()
        if key not in routing and not key.startswith(HIDDEN) and not key.startswith("parallel.")
    }
