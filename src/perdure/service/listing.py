"""Runs in a list: what each is, and how it truly stands. Thousands of rows must cost little, so each is decoded and made once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.clock import rfc3339
from perdure.kernel.lifecycle import SETTLED

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow


class Listed(msgspec.Struct, gc=False):
    """One run as lists show it. Times are RFC 3339, durations milliseconds. `is_readable` is false when the record of the run,
    which holds what is shown and never searched, cannot be read; `questions` is how many wait for a person; `usage` is what agents of a
    settled run reported: tokens, turns, tool calls, `cost` in US dollars."""

    run_id: str
    name: str
    kind: str
    status: str
    status_reason: str | None
    created_at: str
    started_at: str | None
    settled_at: str | None
    duration_ms: int | None
    goal: str
    labels: dict[str, str]
    workflow_slug: str
    working_directory: str | None
    run_dir: str
    parent_run_id: str | None
    is_readable: bool
    questions: int = 0
    usage: dict[str, int | float] | None = None


class _Record(msgspec.Struct, gc=False):
    """What the store keeps of a run for listings."""

    reason: str | None = None
    duration_ms: int | None = None
    goal: str = ""
    labels: dict[str, str] = {}
    workflow_slug: str = ""
    working_directory: str | None = None
    usage: dict[str, int | float] | None = None


_decode = msgspec.json.Decoder(_Record).decode
_NOTHING = _Record()


def list_runs(
    state: State, *, all_runs: bool, workflow: str = "", labels: dict[str, str] | None = None
) -> list[Listed]:
    """Runs, newest first; only those that are not settled unless all are wanted. A record that cannot be read costs itself only."""
    if not state.has_runs:
        return []
    shown = [listed(row) for row in state.store.list_runs(open_only=not all_runs)]
    _count_questions(state, shown)
    if workflow:
        wanted = workflow.lower()
        shown = [each for each in shown if wanted in (each.name.lower(), each.workflow_slug)]
    for key, value in (labels or {}).items():
        shown = [each for each in shown if each.labels.get(key) == value]
    return shown


def _count_questions(state: State, shown: list[Listed]) -> None:
    waiting = {each.run_id: each for each in shown if each.status in ("waiting", "running")}
    for question in state.store.open_questions() if waiting else ():
        if question.answer is None and question.run_id in waiting:
            waiting[question.run_id].questions += 1


class Drift(msgspec.Struct, frozen=True):
    """Where the store and the folder of run directories disagree."""

    unknown: list[str]
    missing: list[str]


def drift(state: State) -> Drift:
    """Directories of runs that the store does not know (it was lost, or they were copied here), and ids of runs without a directory."""
    top = state.home.runs
    # The folder first: a run is in the store before its directory is there.
    names = os.listdir(top) if os.path.isdir(top) else []
    rows = state.store.list_runs() if state.has_runs else []
    known = {row.run_id for row in rows}
    there = {name.rpartition("-")[2] for name in names}
    unknown = [name for name in sorted(names) if name[:1] != "." and name.rpartition("-")[2] not in known]
    return Drift(
        [f"{top}/{name}" for name in unknown if os.path.isfile(f"{top}/{name}/progress.jsonl")],
        [
            row.run_id
            for row in rows
            if row.parent is None and row.run_id not in there and not os.path.isdir(row.run_dir)
        ],
    )


def listed(row: RunRow) -> Listed:
    """One run as lists show it."""
    is_readable = True
    try:
        record = _decode(row.record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        record, is_readable = _NOTHING, False
    status, started_at, settled_at = row.status, row.started_at, row.settled_at
    if status not in SETTLED:
        from perdure.kernel.ownership import true_status

        status = true_status(row)
    return Listed(
        row.run_id,
        row.name,
        row.kind,
        status,
        record.reason,
        rfc3339(row.created_at),
        None if started_at is None else rfc3339(started_at),
        None if settled_at is None else rfc3339(settled_at),
        record.duration_ms,
        record.goal,
        record.labels,
        record.workflow_slug,
        record.working_directory,
        row.run_dir,
        row.parent,
        is_readable,
        usage=record.usage,
    )


def described(row: RunRow) -> dict[str, Any]:
    """One run as lists show it, as a map that more can be added to."""
    return msgspec.structs.asdict(listed(row))
