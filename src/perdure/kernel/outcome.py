"""What came of a run or a step: a status, and when it is bad, a failure that says why."""

from typing import Any, Literal

import msgspec

FailureClass = Literal[
    "transient_infra", "deterministic", "budget_exhausted", "compilation_loop", "canceled", "structural"
]


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why something failed: for people a message, for conditions a class, for loops a signature."""

    message: str
    failure_class: FailureClass = "deterministic"
    failure_signature: str | None = None
    code: str | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run ended. `status` is one of the settled statuses; `reason` a stable word (docs/reference/run-status.md);
    `properties` join those of the run's last event."""

    status: Literal["succeeded", "partially_succeeded", "failed", "cancelled"]
    reason: str | None = None
    failure: Failure | None = None
    output: Any = None
    properties: dict[str, Any] = {}

    @property
    def is_good(self) -> bool:
        """Whether the work's own answer is yes."""
        return self.status in ("succeeded", "partially_succeeded")
