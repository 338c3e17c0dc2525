"""Fail points: ends the process, or fails a write, at a chosen durable write. Off unless the environment asks.

Each place that makes something durable (a commit, a rename, an append, a Git commit) calls `before_write` and
`after_write` with a label. Tests count and choose them:

    PERDURE_FAILPOINT_LOG=PATH      appends each label as a line: how many there are, and where
    PERDURE_CRASH_AFTER=K           SIGKILL to this process right after the K-th durable write (from 1)
    PERDURE_FAIL_WRITE=K:ENOSPC     the K-th and every later durable write raises that OSError instead
"""

import errno
import os
import signal

_log = os.environ.get("PERDURE_FAILPOINT_LOG")
_crash_after = int(os.environ.get("PERDURE_CRASH_AFTER") or 0)
_fail_from, _, _fail_name = os.environ.get("PERDURE_FAIL_WRITE", "").partition(":")
_count = 0

armed = bool(_log or _crash_after or _fail_from)


def arm(*, crash_after: int = 0, fail_write: str = "", log: str | None = None) -> None:
    """Count from now on, as the environment's variables would: for a process that was forked ready."""
    global _log, _crash_after, _fail_from, _fail_name, _count, armed
    _log, _crash_after, _count = log, crash_after, 0
    _fail_from, _, _fail_name = fail_write.partition(":")
    armed = bool(_log or _crash_after or _fail_from)


def before_write(label: str) -> None:
    """Say that a durable write is about to happen. Raises OSError when a test asked for it."""
    if armed and _fail_from and _count + 1 >= int(_fail_from):
        number = getattr(errno, _fail_name)
        raise OSError(number, os.strerror(number), label)


def after_write(label: str) -> None:
    """Say that a durable write has happened. May not return."""
    global _count
    if not armed:
        return
    _count += 1
    if _log:
        handle = os.open(_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(handle, f"{label}\n".encode())
        os.close(handle)
    if _count == _crash_after:
        os.kill(os.getpid(), signal.SIGKILL)
