"""Pid lock files: a file made exclusively whose whole content is the owner's pid.

A dead owner's lock is taken over by one process at a time, under `<lock>.break`. What is neither a pid nor a fresh empty file is
never removed: it may be somebody else's. Such locks hold on one host; across hosts the store's claims do.
"""

import os
import stat
import time
from contextlib import suppress
from typing import Literal, NamedTuple, Self

from perdure.base import failpoint
from perdure.base.errors import OwnedElsewhere
from perdure.disk import process
from perdure.disk.atomic import UnsafePath, explained

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
EMPTY_GRACE_S = 30.0
# A start time is known to about a clock tick, and a file system may round a file's time: a pid counts as reused only when its
# process began clearly after the lock was written.
_REUSE_MARGIN_MS = 2_000
_MAX_PID_TEXT = 20

_held_here: set[str] = set()


class Locked(OwnedElsewhere):
    """Somebody else holds the lock; `holder` says who, in the words of `describe_holder`."""

    code = "locked"

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path} is held by {holder}")
        self.path = path
        self.holder = holder


class _Found(NamedTuple):
    """What stands at a lock's path."""

    kind: Literal["none", "pid", "empty", "other"]
    pid: int = 0
    identity: tuple[int, int, int] = (0, 0, 0)
    mtime_ms: int = 0


class PidLock:
    """One lock. Not re-entrant: this process sees its own lock as held."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `Locked` at once. A dead holder's lock is taken over."""
        for _ in range(3):
            if self._create():
                return
            found = _look(self.path)
            if found.kind == "none":
                continue
            if not _is_abandoned(found) or not _break(self.path, found):
                raise Locked(self.path, describe_holder(self.path))
        if not self._create():
            raise Locked(self.path, describe_holder(self.path))

    def wait(self, limit_s: float, *, poll_s: float = 0.01, take_over: bool = True) -> None:
        """Take the lock, waiting for its holder at most so long; then raise `Locked`. Without `take_over` a dead holder's lock
        stays until a person removes it."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                if take_over:
                    self.acquire()
                elif not self._create():
                    raise Locked(self.path, describe_holder(self.path))  # noqa: TRY301 - waits like the other
            except Locked:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(poll_s)
            else:
                return

    def release(self) -> None:
        """Let go, once: the file is removed only while it is the one that this lock made and it names this process."""
        identity, self._identity = self._identity, None
        if identity is None:
            return
        _held_here.discard(self.path)
        found = _look(self.path)
        if found.kind == "pid" and found.pid == os.getpid() and found.identity[:2] == identity:
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

    def _create(self) -> bool:
        failpoint.before_write("disk.lock")
        try:
            handle = os.open(self.path, _CREATE, 0o600)
        except FileExistsError:
            return False
        except OSError as error:
            raise explained(error, self.path) from error
        try:
            made = os.fstat(handle)
            os.write(handle, str(os.getpid()).encode())
        except OSError as error:
            with suppress(OSError):
                os.unlink(self.path)
            raise explained(error, self.path) from error
        finally:
            os.close(handle)
        try:
            now = os.lstat(self.path)
        except FileNotFoundError:
            return False
        if (now.st_dev, now.st_ino) != (made.st_dev, made.st_ino):
            return False  # this process stalled, and its empty file was broken meanwhile
        self._identity = (made.st_dev, made.st_ino)
        _held_here.add(self.path)
        failpoint.after_write("disk.lock")
        return True


def describe_holder(path: str) -> str:
    """Who holds the lock, for people."""
    found = _look(path)
    if found.kind == "pid":
        if found.pid == os.getpid() and path in _held_here:
            return f"pid {found.pid}"
        if not _is_abandoned(found):
            return f"pid {found.pid}"
        return f"pid {found.pid}, which has exited (if no process is taking the lock over, remove {path}.break)"
    if found.kind in ("empty", "none") and not _is_abandoned(found):
        return "a process that is taking it now; retry"
    return f"an unknown process (if none is running, remove {path})"


def _look(path: str) -> _Found:
    """What is there, without following a link, blocking on a pipe or reading more than a pid needs."""
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        return _Found("none")
    except OSError:
        return _Found("other")
    try:
        at = os.fstat(handle)
        if not stat.S_ISREG(at.st_mode):
            return _Found("other")
        identity = (at.st_dev, at.st_ino, at.st_mtime_ns)
        content = os.read(handle, _MAX_PID_TEXT + 1)
    except OSError:
        return _Found("other")
    finally:
        os.close(handle)
    mtime_ms = at.st_mtime_ns // 1_000_000
    if not content:
        return _Found("empty", 0, identity, mtime_ms)
    text = content.decode("ascii", "replace")
    if len(text) > _MAX_PID_TEXT or not text.isdigit() or not 0 < int(text) < 2**31:
        return _Found("other", 0, identity, mtime_ms)
    return _Found("pid", int(text), identity, mtime_ms)


def _is_abandoned(found: _Found) -> bool:
    """Whether the holder is surely gone."""
    if found.kind == "empty":
        return time.time() * 1000 - found.mtime_ms > EMPTY_GRACE_S * 1000
    if found.kind != "pid":
        return False
    started = process.start_time_ms(found.pid)
    if started is None:
        return not _exists(found.pid)
    return started > found.mtime_ms + _REUSE_MARGIN_MS


def _exists(pid: int) -> bool:
    """Whether a process with the pid does anything any more; one that may not be asked counts as living."""
    if process.started_at(pid) is not None:
        return True
    if os.path.isdir("/proc/self"):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _break(path: str, seen: _Found) -> bool:
    """Remove an abandoned lock, as the only process that does. False when another one is at it."""
    try:
        handle = os.open(f"{path}.break", _CREATE, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise explained(error, path) from error
    try:
        os.write(handle, str(os.getpid()).encode())
        os.close(handle)
        now = _look(path)
        if now.kind == seen.kind and now.pid == seen.pid and now.identity == seen.identity:
            with suppress(FileNotFoundError):
                os.unlink(path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}.break")
    return True


def refuse_unsafe(path: str) -> None:
    """Raises `UnsafePath` when a link, a pipe or a folder stands where a lock should be."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise UnsafePath(f"{path} is no regular file.", hint="Remove it if nothing uses it.")
