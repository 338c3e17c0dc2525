"""The events of a run as they come: what is in the log, then what is added, until it is settled or waits for somebody."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from perdure.kernel.events import event_of
from perdure.kernel.lifecycle import SETTLED
from perdure.kernel.ownership import liveness, true_status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.kernel.events import Event
    from perdure.service.state import State
    from perdure.store.records import RunRow

POLL_S = 0.1


def follow(state: State, row: RunRow, *, after: int = 0) -> Iterator[Event | None]:
    """Events in order; None after each look that found nothing new. Ends when the run is settled or nobody executes it."""
    marker = -1
    while True:
        changed = state.store.change_marker()
        if changed != marker:
            marker = changed
            for each in state.store.read_events(row.no, after):
                after = each.seq
                yield event_of(row.run_id, each)
            found = state.store.find_run(row.run_id)
            if found is None or found.status in SETTLED:
                return
            row = found
        elif liveness(row) in ("none", "dead"):
            rest = state.store.read_events(row.no, after)
            for each in rest:
                after = each.seq
                yield event_of(row.run_id, each)
            return
        yield None
        time.sleep(POLL_S)


def status_of(state: State, run_id: str) -> str:
    """How the run stands now."""
    row = state.store.find_run(run_id)
    return true_status(row) if row is not None else "gone"
