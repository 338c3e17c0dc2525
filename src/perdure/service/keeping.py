"""Keeping the state in order: rebuilding either half from the other, and whole runs as files."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from perdure.base.errors import OwnedElsewhere, Refused
from perdure.base.jsonvalue import encode
from perdure.disk.atomic import private_folder
from perdure.kernel.events import event_of
from perdure.kernel.ownership import describe, liveness
from perdure.store.records import Change, EventRow, NewRun, RunExists, Settlement
from perdure.views.rebuild import rebuild_run_directory
from perdure.views.restore import RestoredRun, find_run_directories, read_run_directory

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow

_STATUS = {
    "run.submitted": "submitted",
    "run.started": "running",
    "run.resumed": "running",
    "run.running": "running",
    "run.waiting": "waiting",
    "run.paused": "paused",
    "run.rewound": "paused",
    "run.forked": "paused",
}
_ENDS = ("run.completed", "run.failed", "run.cancelled")


def rebuild_run(state: State, row: RunRow) -> int:
    """Write the run directory again from the log; how many files. Raises `OwnedElsewhere` while somebody writes it."""
    if liveness(row) in ("alive", "unknown"):
        raise OwnedElsewhere(
            f"Run {row.run_id} is owned by {describe(row)}, who writes its files.", hint="Rebuild it when it has ended."
        )
    events = [event_of(row.run_id, each) for each in state.store.read_events(row.no)]
    return rebuild_run_directory(state.run_dir(row), events, state.blobs)


def rebuild_store(state: State) -> dict[str, Any]:
    """Take every run that the store does not know in from its directory; what was taken, and what was wrong."""
    taken: list[str] = []
    problems: list[str] = []
    for run_dir in find_run_directories(state.home.runs):
        found = read_run_directory(run_dir)
        problems += [f"{run_dir}/progress.jsonl: {text}" for text in found.problems]
        if not found.events:
            problems.append(f"{run_dir}: no event can be read")
            continue
        try:
            _insert(state, found)
            taken.append(found.run_id)
        except RunExists:
            continue
    return {"taken": taken, "problems": problems}


def _insert(state: State, found: RestoredRun) -> None:
    """One run into the store: its log, its status, its open questions."""
    created = found.events[0]
    properties = created.properties
    definition = properties.get("definition")
    from perdure.kernel import large

    named = large.resolve(definition, state.blobs)
    assert isinstance(named, dict)
    status, started, settled = "submitted", None, None
    record: dict[str, Any] = {
        key: properties.get(key)
        for key in ("goal", "labels", "workflow_slug", "working_directory")
        if properties.get(key)
    }
    for event in found.events:
        status = _STATUS.get(event.event, status)
        if event.event == "run.started" and started is None:
            started = event.ts
        if event.event in _ENDS:
            end = event.properties
            status = str(end.get("status"))
            record |= {key: end[key] for key in ("reason", "duration_ms", "usage") if key in end}
            settled = event.ts
    row = NewRun(
        run_id=found.run_id,
        name=str(named.get("name")),
        kind=str(named.get("kind")),
        status="running" if settled else status,
        created_at=created.ts,
        started_at=started,
        run_dir=found.run_dir,
        record=encode(record).decode(),
        owner="{}",
        parent=str(properties["parent_run_id"]) if properties.get("parent_run_id") else None,
    )
    rows = [EventRow(each.seq, each.id, each.ts, each.event, each.step, each.body) for each in found.events]
    claim = state.store.insert_run(row, rows)
    if settled is not None:
        change = Change(settled=Settlement(status, settled, encode(record).decode()))
    else:
        change = Change(open_questions=_open_questions(found), release=True)
    state.store.append(claim, [], change)


def _open_questions(found: RestoredRun) -> tuple[tuple[str, str, int, str], ...]:
    import msgspec

    from perdure.kernel.question import Question

    waiting: dict[str, tuple[str, str, int, str]] = {}
    for event in found.events:
        if event.event == "interview.started":
            p = event.properties
            question = msgspec.convert(
                {
                    "text": p.get("question"),
                    "type": p.get("question_type"),
                    "options": p.get("options") or [],
                    "allow_freeform": p.get("allow_freeform") or False,
                    "default": p.get("default"),
                    "timeout_ms": p.get("timeout_ms"),
                    "context": p.get("context"),
                    "metadata": p.get("metadata") or {},
                },
                Question,
            )
            waiting[str(p["question_id"])] = (
                str(p["question_id"]),
                event.step or "",
                event.ts,
                encode(question).decode(),
            )
        elif event.event in ("interview.completed", "interview.timeout"):
            waiting.pop(str(event.properties.get("question_id")), None)
    return tuple(waiting.values())


def export_run(state: State, row: RunRow, target: str) -> int:
    """Copy the whole run as files into a new or empty folder, its blobs beside; how many files."""
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise Refused(f"{target} is there and not empty.", hint="Name a new folder.")
    events = [event_of(row.run_id, each) for each in state.store.read_events(row.no)]
    private_folder(target)
    count = rebuild_run_directory(target, events, state.blobs)
    for event in events:
        for digest in _blobs_in(event.properties):
            private_folder(os.path.join(target, "blobs"))
            shutil.copyfile(state.blobs.path(digest), os.path.join(target, "blobs", digest))
            count += 1
    return count


def _blobs_in(value: object) -> list[str]:
    if isinstance(value, dict):
        if "$blob" in value:
            return [str(value["$blob"])]
        return [digest for each in value.values() for digest in _blobs_in(each)]
    if isinstance(value, list):
        return [digest for each in value for digest in _blobs_in(each)]
    return []
