"""Taking runs out: only on a person's word, never work that is not committed, and never half: a kill leaves the run or takes it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base import failpoint
from perdure.base.errors import PerdureError, Refused
from perdure.base.ids import now_ms
from perdure.disk.atomic import explained
from perdure.kernel import ownership
from perdure.kernel.events import event_of
from perdure.kernel.lifecycle import SETTLED
from perdure.service.capacity import machine_limits
from perdure.service.listing import list_runs

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow

_REMOVED = ".removed-"


def remove_run(state: State, row: RunRow, *, force: bool) -> None:
    """Forget a run with its child runs, and remove its directory. Its branches in Git stay.

    Raises `Refused` for a run that is not settled and for one whose worktree holds uncommitted work, unless forced;
    `OwnedElsewhere` always for one that is at work."""
    if row.status not in SETTLED:
        if not force:
            status = ownership.true_status(row)
            raise Refused(f"Run {row.run_id} is {status}, not settled.", hint="Cancel it first, or pass --force.")
        # Owned from here on: nobody resumes it while it goes.
        state.store.claim(row.run_id, ownership.owner_text(now_ms()), ownership.judge(lambda _run_id: False))
    folder = state.run_dir(row)
    repository = _repository(state, row)
    for path in worktrees_of(folder):
        if not _is_gone(repository, path) and not force:
            raise Refused(f"{path} holds work that is not committed.", hint="Commit it, or pass --force.")
    hidden = os.path.join(state.home.runs, f"{_REMOVED}{row.run_id}")
    _rename(folder, hidden)
    _forget(state, row)
    _remove_hidden(state)
    if repository:
        from perdure.git.command import git

        git(repository, "worktree", "prune", check=False)


def _rename(folder: str, hidden: str) -> None:
    """Out of sight first: directories that are seen are taken in again when the store is rebuilt."""
    failpoint.before_write("removal.rename")
    try:
        os.rename(folder, hidden)
    except FileNotFoundError:
        return
    except OSError as error:
        raise explained(error, folder) from error
    failpoint.after_write("removal.rename")


def _forget(state: State, row: RunRow) -> None:
    for child in state.store.child_runs(row.run_id):
        _forget(state, child)
    state.store.delete_run(row.no)


def _remove_hidden(state: State) -> None:
    """What was taken out of sight, now or before a kill, goes. Its run is forgotten already, so trouble here costs space only."""
    for name in os.listdir(state.home.runs):
        if name.startswith(_REMOVED) and state.store.find_run(name.removeprefix(_REMOVED)) is None:
            shutil.rmtree(os.path.join(state.home.runs, name), ignore_errors=True)


def worktrees_of(folder: str) -> list[str]:
    """The worktrees that are in a run directory: the run's own, and those of parallel branches."""
    found = [os.path.join(folder, "worktree")]
    branches = os.path.join(folder, "worktrees")
    if os.path.isdir(branches):
        found += [os.path.join(branches, name) for name in sorted(os.listdir(branches))]
    return [path for path in found if os.path.isdir(path)]


def _repository(state: State, row: RunRow) -> str | None:
    for each in state.store.read_events(row.no):
        if each.event == "run.started":
            root = event_of(row.run_id, each).properties.get("repository")
            return str(root) if root and os.path.isdir(str(root)) else None
    return None


def _is_gone(repository: str | None, path: str) -> bool:
    from perdure.git.worktree import remove_worktree

    return repository is not None and remove_worktree(repository, path)


class Wanted(msgspec.Struct, frozen=True):
    """Which runs to prune. Times are epoch milliseconds; empty fields ask nothing."""

    settled_before: int
    workflow: str = ""
    labels: dict[str, str] = {}


def prunable(state: State, wanted: Wanted) -> list[dict[str, Any]]:
    """Settled runs that ended long enough ago, by their own events; never one that waits or is paused, nor a child run.

    Raises `BadLimits`: what removes things asks first whether the limits of this state are as they were meant."""
    machine_limits(state.home)
    if not state.has_runs:
        return []
    from perdure.base.clock import parse_rfc3339

    found = []
    for each in list_runs(state, all_runs=True, workflow=wanted.workflow, labels=wanted.labels):
        if each.settled_at is None or each.parent_run_id or parse_rfc3339(each.settled_at) >= wanted.settled_before:
            continue
        row = state.store.find_run(each.run_id)
        if row is not None:
            size = folder_bytes(state.run_dir(row))
            found.append({"run_id": each.run_id, "name": each.name, "status": each.status, "bytes": size})
    return found


def prune(state: State, found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Remove what `prunable` found; what was removed, and why the rest was not."""
    removed: list[dict[str, Any]] = []
    kept: list[str] = []
    for each in found:
        row = state.store.find_run(each["run_id"])
        if row is None:
            continue
        try:
            remove_run(state, row, force=False)
        except PerdureError as error:
            kept.append(str(error))
        else:
            removed.append(each)
    return removed, kept


def folder_bytes(path: str) -> int:
    """How much a folder holds, in bytes."""
    total = 0
    for folder, _folders, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
