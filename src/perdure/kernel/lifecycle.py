"""Run status: the words, and the only changes that are allowed. `interrupted` is derived, never stored."""

from perdure.base.errors import Refused

OPEN = frozenset({"submitted", "running", "waiting", "paused"})
SETTLED = frozenset({"succeeded", "partially_succeeded", "failed", "cancelled"})

TRANSITIONS: dict[str, frozenset[str]] = {
    "submitted": frozenset({"running", "cancelled", "failed"}),
    "running": frozenset({"running", "waiting", "paused"}) | SETTLED,
    "waiting": frozenset({"running", "paused"}) | SETTLED,
    "paused": frozenset({"running", "cancelled", "failed"}),
} | dict.fromkeys(SETTLED, frozenset())


class IllegalTransition(Refused):
    """A change of status that the table does not have."""

    code = "illegal_transition"


def check_transition(run_id: str, before: str, after: str) -> None:
    """Raises `IllegalTransition` unless a run may go from one status to the other."""
    if after not in TRANSITIONS.get(before, frozenset()):
        way_out = "A settled run never changes; fork it instead." if before in SETTLED else None
        raise IllegalTransition(f"Run {run_id} is {before}; it cannot become {after}.", hint=way_out)
