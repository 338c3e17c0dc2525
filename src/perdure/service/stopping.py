"""Requests to stop that come as signals: the first lets the run pause, the second ends everything at once."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import FrameType

    from perdure.kernel.ending import RunResult

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 130


def run_until_stopped(
    call: Coroutine[Any, Any, RunResult], on_signal: Callable[[int], None] | None = None
) -> RunResult:
    """Run to the end. Ctrl-C, a request to end and a hang-up pause the run: its processes end, and `CancelledError` is raised.

    A second signal does not wait for that: it kills the processes and ends this one, with 130; the run is `interrupted` then,
    as after a crash, and goes on the same way. `on_signal` hears which it is (1, 2).
    """
    return asyncio.run(_attended(call, on_signal))


async def _attended(call: Coroutine[Any, Any, RunResult], on_signal: Callable[[int], None] | None) -> RunResult:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    count = 0

    # Not a handler of the loop: a loop that is busy must not keep the second signal waiting.
    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if on_signal is not None:
            with suppress(OSError):  # the terminal may be gone
                on_signal(min(count, 2))
        if count > 1:
            kill_children()
            os._exit(INTERRUPTED)
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)

    # What whoever started this process chose to ignore (`nohup`, a background job) stays ignored.
    before = {
        number: signal.signal(number, stop) for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        return await call
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def kill_children() -> None:
    """Kill every process that this one started, with all that belongs to it."""
    from perdure.disk import process
    from perdure.sandbox.groups import MARK, Group, kill_all

    for pid in _children():
        identity = process.of_pid(pid)
        mark = _mark_of(pid, MARK)
        if identity is not None and mark:
            kill_all(Group(identity, mark), limit_s=0.5)
        else:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _children() -> list[int]:
    found: list[int] = []
    with suppress(OSError):  # without /proc the next owner of the run ends them
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    return found


def _mark_of(pid: int, name: str) -> str | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    prefix = f"{name}=".encode()
    return next(
        (entry[len(prefix) :].decode("ascii", "replace") for entry in entries if entry.startswith(prefix)), None
    )
