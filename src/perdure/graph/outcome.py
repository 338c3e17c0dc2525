"""What a visit of a node came to: the record that its step keeps, and that routing reads."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.kernel.outcome import Failure, FailureClass

Status = Literal["succeeded", "partially_succeeded", "failed", "retry", "skipped"]


class NodeOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a node. `duration_ms` is the handler's own time in the last attempt, `retries` how many came before it.
    `captured` is of a node with branches: what they captured, by name and digest. `conversation` is of an agent: `backend` says which
    can go on in it, and `at` where."""

    status: Status
    preferred_label: str | None = None
    suggested_next_ids: list[str] = []
    context_updates: dict[str, Any] = {}
    jump_to_node: str | None = None
    notes: str | None = None
    failure: Failure | None = None
    usage: dict[str, Any] | None = None
    files_touched: list[str] = []
    response: str | None = None
    duration_ms: int = 0
    retries: int = 0
    captured: list[str] = []
    conversation: dict[str, Any] | None = None

    @property
    def is_good(self) -> bool:
        """Whether it is a success, whole or in part."""
        return self.status in ("succeeded", "partially_succeeded")

    @property
    def failure_reason(self) -> str:
        """Why it failed, for people."""
        return self.failure.message if self.failure else ""

    def to_json(self) -> dict[str, JSON]:
        """The outcome as its step records it."""
        value: dict[str, JSON] = msgspec.to_builtins(self)
        return value

    def but(self, **changes: Any) -> NodeOutcome:
        """The same outcome with some fields changed."""
        return msgspec.structs.replace(self, **changes)


def outcome_of(value: JSON) -> NodeOutcome:
    """The outcome that a step recorded."""
    return msgspec.convert(value, NodeOutcome)


def failed(message: str, failure_class: FailureClass = "deterministic", **more: Any) -> NodeOutcome:
    """A failure, and why."""
    return NodeOutcome("failed", failure=Failure(message, failure_class), **more)


def try_again(message: str, failure_class: FailureClass = "transient_infra", **more: Any) -> NodeOutcome:
    """A failure that another attempt may mend."""
    return NodeOutcome("retry", failure=Failure(message, failure_class), **more)
