"""Detached runs: a process of its own, in a session of its own, that survives the shell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from perdure.base.clock import rfc3339
from perdure.base.errors import EnvironmentFault
from perdure.base.ids import now_ms
from perdure.disk.atomic import private_folder, replace
from perdure.kernel.ownership import parse_owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.service.state import State

START_LIMIT_S = 30.0


class NotDetached(EnvironmentFault):
    """The process of a detached run did not start."""

    code = "not_detached"


def detach(state: State, run_id: str, arguments: Sequence[str] = ()) -> int:
    """Execute the run in a process of its own; its pid. Returns when that process owns the run, or has ended it already."""
    private_folder(state.home.launchers)
    log_path = os.path.join(state.home.launchers, f"{run_id}.log")
    handle = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        child = subprocess.Popen(  # noqa: S603 - this very program
            [
                sys.executable,
                "-m",
                "perdure.cli.main",
                "--state-dir",
                state.home.root,
                "execute-detached",
                run_id,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            start_new_session=True,
        )
    finally:
        os.close(handle)
    record = {
        "run_id": run_id,
        "pid": child.pid,
        "log_path": log_path,
        "started_at": rfc3339(now_ms()),
        "resume": bool(arguments),
    }
    replace(os.path.join(state.home.launchers, f"{run_id}.json"), msgspec.json.encode(record), durable=False)
    _until_owned(state, run_id, child, log_path)
    # The child goes on by itself: this process does not wait for it, and must not complain about that.
    child.returncode = 0
    return child.pid


def _until_owned(state: State, run_id: str, child: subprocess.Popen[bytes], log_path: str) -> None:
    before = state.store.find_run(run_id)
    events = state.store.last_event(before.no) if before else None
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        row = state.store.find_run(run_id)
        if row is not None:
            if row.owner is not None and parse_owner(row.owner).identity.pid == child.pid:
                return
            last = state.store.last_event(row.no)
            if row.settled_at is not None or (last and events and last.seq > events.seq and row.owner is None):
                return
        if child.poll() is not None:
            break
        time.sleep(0.02)
    with open(log_path, encoding="utf-8", errors="replace") as file:
        said = file.read()[-500:].strip()
    raise NotDetached(
        f"The process of run {run_id} did not start: {said or 'it said nothing'}.", hint=f"See {log_path}."
    )
