"""A run directory made anew from the log. Nobody may be executing the run meanwhile."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.base import failpoint
from perdure.base.errors import Refused
from perdure.base.ids import uuid_text
from perdure.disk import jsonl
from perdure.disk.atomic import explained, private_folder
from perdure.views.run_directory import RunDirectory, hidden_path, remove_unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perdure.disk.blobs import Blobs
    from perdure.kernel.events import Event

LOG = "progress.jsonl"
LOST = "progress.jsonl.lost"
_ROOT = frozenset(
    {
        "run.json", "start.json", "workflow.fabro", "workflow.toml", "live.json", "checkpoint.json", "conclusion.json",
        "final.patch", "retro.json", "cli.log",
    }
)  # fmt: skip
_NODE = frozenset(
    {
        "status.json", "prompt.md", "response.md", "provider_used.json", "script_invocation.json", "stdout.log",
        "stderr.log", "script_timing.json", "diff.patch", "parallel_results.json",
    }
)  # fmt: skip


def rebuild_run_directory(run_dir: str, events: Sequence[Event], blobs: Blobs) -> int:
    """Write every view of the run again; how many files there are now. Raises `Refused` without events.

    The new files are made beside the old ones and moved over them one by one, the log last, so a kill half-way leaves whole files
    and the next try begins anew. A view that the log does not make is removed; what is no view stays (the worktree, people's answers,
    captured files, child runs). Lines of the old log that are not in the new one are kept in `progress.jsonl.lost`.
    """
    if not events:
        raise Refused(f"{run_dir} cannot be rebuilt: the run has no events.")
    remove_unfinished(run_dir)
    hidden = hidden_path(run_dir, "rebuild")
    fresh = f"{hidden}/run"
    try:
        private_folder(hidden)
        view = RunDirectory(fresh, blobs)
        view.committed(events)
        view.flush()
        view.close()
        made = sorted(_files(fresh), key=lambda name: (name == LOG, name))
        if os.path.isdir(run_dir):
            _swap(fresh, run_dir, made, events)
        else:
            _move(fresh, run_dir)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return len(made)


def _swap(fresh: str, run_dir: str, made: list[str], events: Sequence[Event]) -> None:
    _keep_lost_lines(run_dir, events)
    for name in _old_views(run_dir):
        if name not in made:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(run_dir, name))
    for name in made:
        source, target = os.path.join(fresh, name), os.path.join(run_dir, name)
        if not _is_same(source, target):
            private_folder(os.path.dirname(target))
            _move(source, target)


def _move(source: str, target: str) -> None:
    try:
        failpoint.before_write("views.rebuild")
        os.rename(source, target)
    except OSError as error:
        raise explained(error, target) from error
    failpoint.after_write("views.rebuild")


def _files(folder: str) -> Iterator[str]:
    """Every file below a folder, by its relative name with `/`."""
    for place, _folders, names in os.walk(folder):
        relative = os.path.relpath(place, folder).replace(os.sep, "/")
        for name in names:
            yield name if relative == "." else f"{relative}/{name}"


def _old_views(run_dir: str) -> Iterator[str]:
    """The files there that this or an earlier version made from the log."""
    yield from (name for name in _names(run_dir) if name in _ROOT)
    for node in _names(f"{run_dir}/nodes"):
        yield from (f"nodes/{node}/{name}" for name in _names(f"{run_dir}/nodes/{node}") if name in _NODE)
    yield from (f"runtime/{name}" for name in _names(f"{run_dir}/runtime") if name == "interview_request.json")
    for folder in ("runtime/interview_requests", "cache/artifacts/values"):
        yield from (f"{folder}/{name}" for name in _names(f"{run_dir}/{folder}") if name.endswith(".json"))


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _is_same(source: str, target: str) -> bool:
    """Whether the file has that content already; then it keeps its time."""
    from filecmp import cmp

    try:
        return os.path.isfile(target) and not os.path.islink(target) and cmp(source, target, shallow=False)
    except OSError:
        return False


def _keep_lost_lines(run_dir: str, events: Sequence[Event]) -> None:
    """What the old log holds and the new one does not is history that was lost elsewhere, or damage: it is kept."""
    path = os.path.join(run_dir, LOG)
    if not os.path.isfile(path):
        return
    known = {uuid_text(event.id) for event in events}
    lost: list[bytes] = []
    for found in jsonl.read(path):
        if isinstance(found, jsonl.Record):
            if not isinstance(found.value, dict) or found.value.get("id") not in known:
                lost.append(found.raw)
        elif found.raw.strip(b"\0"):
            lost.append(found.raw)
    if not lost:
        return
    before = set()
    if os.path.isfile(os.path.join(run_dir, LOST)):
        before = {found.raw for found in jsonl.read(os.path.join(run_dir, LOST))}
    new = [line for line in lost if line not in before]
    if new:
        appender = jsonl.Appender(os.path.join(run_dir, LOST), label="views.lost")
        try:
            appender.append(b"\n".join(new) + b"\n")
        finally:
            appender.close()
