"""Detached runs: a process of its own, in a session of its own, that survives the shell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from perdure.base.clock import rfc3339
from perdure.base.errors import EnvironmentFault, OwnedElsewhere, PerdureError
from perdure.base.ids import now_ms
from perdure.disk.atomic import private_folder, replace
from perdure.kernel.ownership import judge, parse_owner
from perdure.service.capacity import machine_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.service.state import State
    from perdure.store.records import RunRow

START_LIMIT_S = 30.0


class NotDetached(EnvironmentFault):
    """The process of a detached run did not start."""

    code = "not_detached"


def detach(state: State, row: RunRow, arguments: Sequence[str] = ()) -> int:
    """Execute the run in a process of its own; its pid. Returns when that process owns the run, or has ended it already.

    Raises `NotDetached` with what the process said, `OwnedElsewhere`, and `IllegalTransition` for a run that is settled,
    `BadLimits`."""
    machine_limits(state.home)  # refused here, where the person reads it
    run_id = row.run_id
    judge(lambda _run_id: False)(row)
    private_folder(state.home.launchers)
    log_path = os.path.join(state.home.launchers, f"{run_id}.log")
    handle = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    said_before = os.fstat(handle).st_size
    try:
        child = subprocess.Popen(  # noqa: S603 - this very program
            [
                sys.executable,
                "-m",
                "perdure.cli.entry",
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
        "run_dir": state.run_dir(row),
        "pid": child.pid,
        "resume": row.started_at is not None,
        "log_path": log_path,
        "started_at": rfc3339(now_ms()),
    }
    replace(os.path.join(state.home.launchers, f"{run_id}.json"), msgspec.json.encode(record), durable=False)
    try:
        is_owned = _is_owned(state, row, child)
    except KeyboardInterrupt:
        child.terminate()
        raise
    if not is_owned:
        child.terminate()  # what failed must not begin after it was said to have failed
        child.wait()
        raise _failure(row, child, log_path, said_before)
    # The child goes on by itself: this process does not wait for it, and must not complain about that.
    child.returncode = 0
    return child.pid


def _is_owned(state: State, row: RunRow, child: subprocess.Popen[bytes]) -> bool:
    """Wait until the process owns the run or has brought it on. False when it ended before that, or took too long."""
    events = state.store.last_event(row.no)
    deadline = time.monotonic() + START_LIMIT_S
    ended = False
    while time.monotonic() < deadline and not ended:
        # Whether it has ended is asked first: what it did before is in the store then.
        ended = child.poll() is not None
        now = state.store.find_run(row.run_id)
        if now is not None:
            if now.owner is not None and parse_owner(now.owner).identity.pid == child.pid:
                return True
            last = state.store.last_event(now.no)
            if last and events and last.seq > events.seq and now.owner is None:
                return True
        time.sleep(0.02)
    return False


def _failure(row: RunRow, child: subprocess.Popen[bytes], log_path: str, said_before: int) -> PerdureError:
    with open(log_path, "rb") as file:
        file.seek(said_before)
        said = file.read(4096).decode("utf-8", "replace").strip()
    if child.poll() == OwnedElsewhere.exit_code:
        return OwnedElsewhere(said.removeprefix("error: "))
    return NotDetached(
        f"The process of run {row.run_id} did not start: {said[-500:] or 'it said nothing'}.", hint=f"See {log_path}."
    )
