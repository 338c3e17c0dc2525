"""The other way round: a run's whole log, read back from its directory when the database is lost."""

import os
from collections.abc import Iterator

import msgspec

from perdure.disk import jsonl
from perdure.kernel.events import Event, parse_line


class RestoredRun(msgspec.Struct, frozen=True):
    """A log as its `progress.jsonl` holds it. `problems` says, for people, what could not be read."""

    run_dir: str
    run_id: str
    events: list[Event]
    problems: list[str]


def find_run_directories(runs: str) -> Iterator[str]:
    """Every run directory under a folder, those of child runs too, parents first."""
    if not os.path.isdir(runs):
        return
    for name in sorted(os.listdir(runs)):
        path = os.path.join(runs, name)
        if os.path.isfile(os.path.join(path, "progress.jsonl")):
            yield path
            nodes = os.path.join(path, "nodes")
            for node in sorted(os.listdir(nodes)) if os.path.isdir(nodes) else []:
                yield from find_run_directories(os.path.join(nodes, node))


def read_run_directory(run_dir: str) -> RestoredRun:
    """The events of a run directory, in order, each number once. After a gap in the numbers nothing more is taken."""
    events: list[Event] = []
    problems: list[str] = []
    for found in jsonl.read(os.path.join(run_dir, "progress.jsonl")):
        if isinstance(found, jsonl.Damage):
            problems.append(f"line {found.line} at byte {found.offset}: {found.reason}")
            continue
        try:
            event = parse_line(found.raw)
        except ValueError as error:
            problems.append(f"line {found.line} at byte {found.offset}: no event: {error}")
            continue
        expected = len(events) + 1
        if event.seq < expected:
            continue
        if event.seq > expected:
            problems.append(f"line {found.line}: event {event.seq} follows event {expected - 1}; the rest is not taken")
            break
        events.append(event)
    run_id = events[0].run_id if events else ""
    return RestoredRun(run_dir, run_id, events, problems)
