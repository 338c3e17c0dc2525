"""Settling a run that nobody executes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.base import ids
from perdure.base.jsonvalue import decode, encode
from perdure.kernel import ownership
from perdure.kernel.events import event_of
from perdure.store.records import Change, EventRow, Settlement
from perdure.views.run_directory import RunDirectory

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow


def settle_cancelled(state: State, row: RunRow, reason: str) -> None:
    """Own the run for a moment and record that it was cancelled."""
    now = ids.now_ms()
    claim = state.store.claim(row.run_id, ownership.owner_text(now), ownership.judge(lambda _run_id: False))
    events = state.store.read_events(claim.no)
    seq = events[-1].seq
    failure = {"message": reason, "failure_class": "canceled", "code": "cancelled"}
    properties = {
        "status": "cancelled",
        "reason": "cancelled",
        "duration_ms": now - (row.started_at or row.created_at),
        "failure": failure,
        "output": None,
    }
    rows = [
        EventRow(seq + 1, ids.new_uuid7(), now, "run.cancel_requested", None, encode({"reason": reason})),
        EventRow(seq + 2, ids.new_uuid7(), now, "run.cancelled", None, encode(properties)),
    ]
    record = decode(row.record)
    shown = (record if isinstance(record, dict) else {}) | {"reason": "cancelled", "failure": reason}
    state.store.append(claim, rows, Change(settled=Settlement("cancelled", now, encode(shown).decode())))
    view = RunDirectory(state.run_dir(row), state.blobs)
    view.catch_up([event_of(row.run_id, each) for each in [*events, *rows]])
