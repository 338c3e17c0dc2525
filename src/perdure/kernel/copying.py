"""Fork and rewind: a new run that begins with a copy of another's log. The source never changes."""

from collections.abc import Callable, Sequence

from perdure.base import ids
from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON, encode
from perdure.kernel.events import Event
from perdure.store.protocol import Store
from perdure.store.records import EventRow, NewRun, RunRow

# These tell of one owner's work, or of the end; a copy has its own.
_NOT_COPIED = frozenset(
    {"run.waiting", "run.running", "run.paused", "run.resumed", "run.completed", "run.failed", "run.cancelled"}
)

Rewrite = Callable[[str, dict[str, JSON]], dict[str, JSON]]


class CutInsideStep(Refused):
    """The place to cut lies inside a step: a log can be cut only where no step is open."""

    code = "cut_inside_step"


def copied_events(
    events: Sequence[Event], up_to: int, rewrite: Rewrite, told: tuple[str, dict[str, JSON]]
) -> list[EventRow]:
    """The log of the new run: the source's up to that number, renumbered, then the event that tells where it comes from.

    `rewrite` gives the new properties of `run.created` and `run.started`. Raises `CutInsideStep`.
    """
    kept = [event for event in events if event.seq <= up_to and event.event not in _NOT_COPIED]
    _check_cut(kept, up_to)
    rows: list[EventRow] = []
    for event in kept:
        body = event.body
        if event.event in ("run.created", "run.started"):
            body = encode(rewrite(event.event, event.properties))
        rows.append(EventRow(len(rows) + 1, event.id, event.ts, event.event, event.step, body))
    name, properties = told
    last = kept[-1].ts
    rows.append(EventRow(len(rows) + 1, ids.new_uuid7(), max(last, ids.now_ms()), name, None, encode(properties)))
    return rows


def _check_cut(events: Sequence[Event], up_to: int) -> None:
    open_steps: set[str] = set()
    for event in events:
        if event.step is None:
            continue
        if event.event in ("step.started", "interview.started"):
            open_steps.add(event.step)
        elif event.event in ("step.completed", "interview.completed", "interview.timeout") or (
            event.event == "step.failed" and not event.properties.get("will_retry")
        ):
            open_steps.discard(event.step)
    if open_steps:
        raise CutInsideStep(f"At event {up_to} these steps are open: {', '.join(sorted(open_steps))}.")


def insert_copy(store: Store, source: RunRow, run_id: str, run_dir: str, record: str, rows: Sequence[EventRow]) -> None:
    """Make the new run, `paused`, so that `resume` goes on with it."""
    new = NewRun(
        run_id=run_id,
        name=source.name,
        kind=source.kind,
        status="paused",
        created_at=ids.now_ms(),
        started_at=source.started_at,
        run_dir=run_dir,
        record=record,
    )
    store.insert_run(new, rows)
