"""The other way round: a run's whole log, read back from its directory when the database is lost. Reads only."""

import os
from collections.abc import Iterator

import msgspec

from perdure.base.jsonvalue import encode
from perdure.disk import jsonl
from perdure.kernel.events import Event, parse_line


class RestoredRun(msgspec.Struct, frozen=True):
    """A log as its `progress.jsonl` holds it. `problems` says, for people, what could not be read."""

    run_dir: str
    run_id: str
    events: list[Event]
    problems: list[str]


def find_run_directories(runs: str) -> Iterator[str]:
    """Every run directory under a folder, those of child runs too, parents first. One that is being made is none yet."""
    if not os.path.isdir(runs):
        return
    for name in sorted(os.listdir(runs)):
        path = os.path.join(runs, name)
        if not name.startswith(".") and os.path.isfile(os.path.join(path, "progress.jsonl")):
            yield path
            nodes = os.path.join(path, "nodes")
            for node in sorted(os.listdir(nodes)) if os.path.isdir(nodes) else []:
                yield from find_run_directories(os.path.join(nodes, node))


def read_run_directory(run_dir: str) -> RestoredRun:
    """The events of a run directory, in order, each number once. After a gap in the numbers nothing more is taken.

    Damage costs the line that it is in. An event that stands there twice counts once; one without a number gets the next.
    """
    events: list[Event] = []
    problems: list[str] = []
    for found in jsonl.read(os.path.join(run_dir, "progress.jsonl")):
        where = f"line {found.line} at byte {found.offset}"
        if isinstance(found, jsonl.Damage):
            problems.append(f"{where}: {found.reason}")
            continue
        expected = len(events) + 1
        try:
            event = _event(found, expected)
        except ValueError as error:
            problems.append(f"{where}: no event: {error}")
            continue
        if event.seq > expected:
            problems.append(f"line {found.line}: event {event.seq} follows event {expected - 1}; the rest is not taken")
            break
        wrong = _objection(event, events)
        if wrong:
            problems.append(f"{where}: {wrong}")
        elif event.seq == expected:
            events.append(event)
            if isinstance(found.value, dict) and "seq" not in found.value:
                problems.append(f"{where}: no number; it is taken as event {expected}")
    run_id = events[0].run_id if events else ""
    return RestoredRun(run_dir, run_id, events, problems)


def _event(found: jsonl.Record, expected: int) -> Event:
    if isinstance(found.value, dict) and "seq" not in found.value:
        return parse_line(encode(found.value | {"seq": expected}))
    return parse_line(found.raw)


def _objection(event: Event, events: list[Event]) -> str | None:
    """Why an event cannot be a part of this log; None also for one that is there already."""
    if events and event.run_id != events[0].run_id:
        return f"an event of run {event.run_id}; it is not taken"
    if event.seq < 1:
        return f"event {event.seq}: numbers begin at 1"
    if event.seq <= len(events) and event.id != events[event.seq - 1].id:
        return f"another event {event.seq}; the first one is taken"
    return None
