"""Looking for trouble: the machine, the state, the runs. Nothing is changed."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING, Any

from perdure.base.errors import PerdureError
from perdure.disk.home import find_state_home
from perdure.kernel.ownership import true_status
from perdure.service.listing import drift
from perdure.service.removal import worktrees_of
from perdure.views.restore import find_run_directories, read_run_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.service.state import State
    from perdure.store.records import RunRow

_LOW_SPACE = 500 * 1024 * 1024
_LOGS_READ = 200


def diagnose(given: str | None, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Findings, each with `level` (ok, warn, error), `what` and `text`."""
    found = [
        _sqlite(),
        _program("git", "checkpoints and worktrees need it"),
        _program("dot", "PNG and PDF drawings need it", "ok"),
    ]
    try:
        home = find_state_home(given, environ)
    except PerdureError as error:
        return [*found, _finding("error", "state home", str(error))]
    found.append(_finding("ok", "state home", home.root if os.path.isdir(home.root) else f"{home.root} (not made yet)"))
    if not os.path.isdir(home.root):
        return found
    found += _modes(home.root)
    free = shutil.disk_usage(home.root).free
    found.append(_finding("ok" if free > _LOW_SPACE else "warn", "disk", f"{free / 1e9:.1f} GB free"))
    from perdure.service.capacity import limits_found, slots_found
    from perdure.service.state import open_state_to_read

    finding, limits = limits_found(home)
    found.append(finding)
    try:
        state = open_state_to_read(given, environ)
    except PerdureError as error:
        return [*found, _finding("error", "state.sqlite", str(error)), *_logs(home.runs)]
    try:
        slots = slots_found(state.store, limits) if state.has_runs else []
        return [*found, *slots, *_runs(state), *_drift(state), *_logs(home.runs)]
    finally:
        state.close()


def _finding(level: str, what: str, text: str) -> dict[str, Any]:
    return {"level": level, "what": what, "text": text}


def _sqlite() -> dict[str, Any]:
    from perdure.store.opening import check_library, library_version

    try:
        check_library()
    except PerdureError as error:
        return _finding("error", "SQLite", str(error))
    return _finding("ok", "SQLite", library_version())


def _program(name: str, why: str, missing: str = "warn") -> dict[str, Any]:
    path = shutil.which(name)
    return _finding("ok", name, path) if path else _finding(missing, name, f"not found; {why}")


def _modes(root: str) -> list[dict[str, Any]]:
    mode = stat.S_IMODE(os.stat(root).st_mode)
    if mode & 0o077:
        return [
            _finding("warn", "modes", f"{root} has mode {mode:04o}; others can look in. `chmod 700 {root}` mends it.")
        ]
    return [_finding("ok", "modes", "for its owner only")]


def _runs(state: State) -> list[dict[str, Any]]:
    if not state.has_runs:
        return [_finding("ok", "runs", "none")]
    rows = state.store.list_runs()
    counts: dict[str, int] = {}
    found = []
    for row in rows:
        status = true_status(row)
        counts[status] = counts.get(status, 0) + 1
        if status == "interrupted":
            found.append(
                _finding("warn", f"run {row.run_id}", f"interrupted; `perdure resume {row.run_id[:12]}` goes on")
            )
        found += _behind(state, row)
        for path in worktrees_of(state.run_dir(row)) if row.settled_at is not None else ():
            found.append(_finding("warn", f"run {row.run_id}", f"a worktree is left: {path}"))
    text = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    return [_finding("ok", "runs", text), *found]


def _drift(state: State) -> list[dict[str, Any]]:
    found = drift(state)
    unknown = [
        _finding("warn", "runs", f"the store does not know {path}; `perdure rebuild --store` takes it in")
        for path in found.unknown
    ]
    missing = [
        _finding("warn", f"run {run_id}", f"its files are missing; `perdure rebuild {run_id[:12]}` makes them again")
        for run_id in found.missing
    ]
    return unknown + missing


def _behind(state: State, row: RunRow) -> list[dict[str, Any]]:
    """Whether the files of a run that nobody executes are older than its log: its owner died between the two."""
    from perdure.views.run_directory import last_written_seq

    last = state.store.last_event(row.no)
    written = last_written_seq(os.path.join(state.run_dir(row), "progress.jsonl"))
    if row.settled_at is None or last is None or written >= last.seq:
        return []
    text = f"its files end at event {written} of {last.seq}; `perdure rebuild {row.run_id[:12]}` makes them again"
    return [_finding("warn", f"run {row.run_id}", text)]


def _logs(runs: str) -> list[dict[str, Any]]:
    """Damage in the logs of the newest runs."""
    found = []
    for run_dir in list(find_run_directories(runs))[-_LOGS_READ:]:
        for problem in read_run_directory(run_dir).problems:
            found.append(_finding("warn", f"{run_dir}/progress.jsonl", f"{problem}; `perdure rebuild` makes it again"))
    return found
