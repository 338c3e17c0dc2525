"""Rewind and fork: a new run that begins where another one stood at a checkpoint, with its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base import ids
from perdure.base.errors import NotFound
from perdure.base.jsonvalue import JSON, decode, encode
from perdure.kernel.copying import copied_events, insert_copy
from perdure.kernel.events import event_of
from perdure.views.run_directory import RunDirectory

if TYPE_CHECKING:
    from perdure.kernel.events import Event
    from perdure.service.state import State
    from perdure.store.records import RunRow


class Stop(msgspec.Struct, frozen=True):
    """A checkpoint that a copy may begin at. `ordinal` counts from 1, `seq` is the last event that is copied."""

    ordinal: int
    node_id: str
    visit: int
    status: str
    seq: int
    git_commit_sha: str | None
    next_node_id: str | None


def stops_of(state: State, row: RunRow) -> list[Stop]:
    """The checkpoints of a run, in their order."""
    return _stops([event_of(row.run_id, each) for each in state.store.read_events(row.no)])


def _stops(events: list[Event]) -> list[Stop]:
    stops: list[Stop] = []
    for event in events:
        if event.event != "checkpoint.completed":
            continue
        properties = event.properties
        if properties.get("completed"):
            visits = properties.get("node_visits_set")
            node_id = str(properties["node_id"]) if "node_id" in properties else str(properties["completed"])
            visit = int(visits.get(node_id, 1)) if isinstance(visits, dict) else 1  # type: ignore[arg-type]
            next_node = properties.get("next_node_id")
            stops.append(
                Stop(
                    len(stops) + 1,
                    node_id,
                    visit,
                    str(properties.get("status") or ""),
                    event.seq,
                    None,
                    str(next_node) if next_node else None,
                )
            )
        elif stops and properties.get("git_commit_sha"):
            stops[-1] = msgspec.structs.replace(
                stops[-1], seq=event.seq, git_commit_sha=str(properties["git_commit_sha"])
            )
    return stops


def find_stop(stops: list[Stop], target: str | None, run_id: str) -> Stop:
    """The checkpoint that `node`, `node@N` or `@N` names; the last one without a target. Raises `NotFound`."""
    if not stops:
        raise NotFound(f"Run {run_id} has no checkpoint yet.")
    if not target:
        return stops[-1]
    name, _, number = target.partition("@")
    found = None
    if not name and number.isdigit():
        found = next((stop for stop in stops if stop.ordinal == int(number)), None)
    elif number:
        found = next((stop for stop in stops if stop.node_id == name and str(stop.visit) == number), None)
    else:
        found = next((stop for stop in reversed(stops) if stop.node_id == name), None)
    if found is None:
        known = ", ".join(f"{stop.node_id}@{stop.visit}" for stop in stops[-12:])
        raise NotFound(f"Run {run_id} has no checkpoint {target}.", hint=f"Its checkpoints: {known}.")
    return found


def copy_run(state: State, row: RunRow, stop: Stop, *, kind: str) -> str:
    """A new run that stands at the checkpoint, `paused`; its id. The source is not touched."""
    events = [event_of(row.run_id, each) for each in state.store.read_events(row.no)]
    run_id = ids.new_ulid()
    run_dir = state.home.run_dir(run_id, ids.now_ms())
    started = next((event.properties for event in events if event.event == "run.started"), {})

    def rewrite(name: str, properties: dict[str, JSON]) -> dict[str, JSON]:
        if name == "run.created":
            return properties | {
                "run_dir": run_dir,
                "parent_run_id": None,
                "copied_from": {"run_id": row.run_id, "seq": stop.seq},
            }
        if properties.get("run_branch"):
            from perdure.git.worktree import run_branch

            return properties | {"run_branch": run_branch(run_id)}
        return properties

    told: dict[str, JSON] = {
        "source_run_id": row.run_id,
        "target_checkpoint_ordinal": stop.ordinal,
        "target_node_id": stop.node_id,
        "target_visit": stop.visit,
        "previous_status": row.status,
        "run_commit_sha": stop.git_commit_sha,
    }
    name = "run.rewound" if kind == "rewind" else "run.forked"
    rows = copied_events(events, stop.seq, rewrite, (name, told))
    _branches(started, row.run_id, run_id, stop)
    record = decode(row.record)
    shown: dict[str, Any] = record if isinstance(record, dict) else {}
    shown = {key: value for key, value in shown.items() if key not in ("reason", "failure", "duration_ms", "usage")}
    insert_copy(state.store, row, run_id, run_dir, encode(shown).decode(), rows)
    view = RunDirectory(run_dir, state.blobs)
    view.committed([event_of(run_id, each) for each in rows])
    view.flush()
    return run_id


def _branches(started: dict[str, JSON], source: str, run_id: str, stop: Stop) -> None:
    """The new run's own branches, at the commits that belong to the checkpoint."""
    root = started.get("repository")
    if not root or not started.get("base_sha"):
        return
    from perdure.git.command import git
    from perdure.git.worktree import branch_exists, create_branch, meta_branch, run_branch

    sha = stop.git_commit_sha or str(started["base_sha"])
    create_branch(str(root), run_branch(run_id), sha)
    trailer = git(
        str(root), "log", "-1", "--format=%(trailers:key=Perdure-Checkpoint,valueonly)", sha, check=False
    ).text.strip()
    if trailer and branch_exists(str(root), meta_branch(source)):
        create_branch(str(root), meta_branch(run_id), trailer)
