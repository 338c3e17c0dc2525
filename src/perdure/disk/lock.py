"""Pid lock files: a file made exclusively whose whole content is the owner's pid.

A dead owner's lock is taken over by one process at a time, under `<lock>.break`. What is neither a pid nor an empty file is never
removed: it may be somebody else's. A living process whose pid stands in the lock is not its owner when it began after the lock
was written; because clocks are set, that is believed only while the kernel knows of no owner either. Such locks hold on one host;
across hosts the store's claims do.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple, Self

from perdure.base import failpoint
from perdure.base.errors import OwnedElsewhere
from perdure.disk import process
from perdure.disk.atomic import discard, explained, write_all

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
EMPTY_GRACE_S = 30.0
# A start time is known to about a clock tick, and a file system may round a file's time: a pid counts as reused only when its
# process began clearly after the lock was written.
_REUSE_MARGIN_MS = 2_000
_MAX_PID_TEXT = 20

# With the pid, because a forked child holds nothing.
_held_here: set[tuple[int, str]] = set()
_HAS_MARKS = os.name != "nt"


class Locked(OwnedElsewhere):
    """Somebody else holds the lock; `holder` says who, in the words of `describe_holder`."""

    code = "locked"

    def __init__(self, path: str, holder: str, message: str | None = None) -> None:
        super().__init__(message or f"{path} is held by {holder}")
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
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `Locked` at once. A dead holder's lock is taken over. Raises `EnvironmentFault` when no file
        can be made there."""
        for _ in range(3):
            if self._create():
                return
            found = _look(self.path)
            if found.kind == "none":
                continue
            if not _is_abandoned(self.path, found) or not _break(self.path, found):
                raise Locked(self.path, describe_holder(self.path))
        if not self._create():
            raise Locked(self.path, describe_holder(self.path))

    def wait(
        self,
        limit_s: float,
        *,
        poll_s: float = 0.01,
        take_over: bool = True,
        message: Callable[[str], str] | None = None,
    ) -> None:
        """Take the lock, waiting for its holder at most so long; then raise `Locked`, with what `message` makes of the holder's
        words. Without `take_over` a dead holder's lock stays until a person removes it."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                if take_over:
                    self.acquire()
                elif not self._create():
                    raise Locked(self.path, describe_holder(self.path))  # noqa: TRY301 - waits like the other
            except Locked as locked:
                if time.monotonic() >= deadline:
                    if message is None:
                        raise
                    raise Locked(self.path, locked.holder, message(locked.holder)) from locked
                time.sleep(poll_s)
            else:
                return

    def release(self) -> None:
        """Let go, once: the file is removed only while it is the one that this lock made and it names this process."""
        identity, self._identity = self._identity, None
        if identity is None:
            return
        _held_here.discard((os.getpid(), self.path))
        found = _look(self.path)
        if found.kind == "pid" and found.pid == os.getpid() and found.identity[:2] == identity:
            with suppress(FileNotFoundError):
                os.unlink(self.path)
        self._close()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

    def _create(self) -> bool:
        try:
            failpoint.before_write("disk.lock")
            self._handle = os.open(self.path, _CREATE, 0o600)
        except FileExistsError:
            return False
        except OSError as error:
            raise explained(error, self.path) from error
        made = os.fstat(self._handle)
        identity = (made.st_dev, made.st_ino)
        try:
            _mark(self._handle)
            write_all(self._handle, str(os.getpid()).encode())
        except OSError as error:
            if _identity(self.path) == identity:
                discard(self.path)
            self._close()
            raise explained(error, self.path) from error
        if _identity(self.path) != identity:
            self._close()
            return False  # this process stalled, and its empty file was broken meanwhile
        self._identity = identity
        _held_here.add((os.getpid(), self.path))
        if not _HAS_MARKS:
            self._close()  # an open file could not be removed there
        failpoint.after_write("disk.lock")
        return True

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def _identity(path: str) -> tuple[int, int] | None:
    """Which file stands at the path; None when there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _mark(handle: int) -> None:
    """Let the kernel know that the file has a living owner; it forgets when the owner dies."""
    if _HAS_MARKS:
        import fcntl

        with suppress(OSError):  # some network file systems cannot
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_marked(path: str) -> bool:
    """Whether the kernel knows of a living owner. False also where it cannot know."""
    if not _HAS_MARKS:
        return False
    import fcntl

    try:
        handle = os.open(path, _READ)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def describe_holder(path: str) -> str:
    """Who holds the lock, for people."""
    found = _look(path)
    if found.kind == "pid":
        if not _is_abandoned(path, found):
            return f"pid {found.pid}"
        return f"pid {found.pid}, which has exited (if no process is taking the lock over, remove {path}.break)"
    if found.kind in ("empty", "none") and not _is_abandoned(path, found):
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


def _is_abandoned(path: str, found: _Found) -> bool:
    """Whether the holder is surely gone."""
    if found.kind == "empty":
        return time.time() * 1000 - found.mtime_ms > EMPTY_GRACE_S * 1000
    if found.kind != "pid" or (os.getpid(), path) in _held_here:
        return False
    started = process.start_time_ms(found.pid)
    if started is None:
        return not process.exists(found.pid)
    # Where pids begin anew, as in a container, this process may have the pid of the one that died a moment ago. It has run for
    # a while before it looks at a lock, so no margin is needed to tell the two apart.
    margin = 0 if found.pid == os.getpid() else _REUSE_MARGIN_MS
    return started > found.mtime_ms + margin and not _is_marked(path)


def _break(path: str, seen: _Found) -> bool:
    """Remove an abandoned lock, as the only process that does. False when another one is at it."""
    breaking = f"{path}.break"
    try:
        failpoint.before_write("disk.break")
        handle = os.open(breaking, _CREATE, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise explained(error, breaking) from error
    try:
        with suppress(OSError):  # its being there is what counts
            os.write(handle, str(os.getpid()).encode())
        os.close(handle)
        now = _look(path)
        if now.kind == seen.kind and now.pid == seen.pid and now.identity == seen.identity:
            with suppress(FileNotFoundError):
                os.unlink(path)
    finally:
        discard(breaking)
    failpoint.after_write("disk.break")
    return True
