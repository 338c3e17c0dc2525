"""Where sessions lie, and what may lie there: a folder for its owner only, one file a session, named by its id."""

from __future__ import annotations

import os
import re
import stat

import msgspec

from perdure.base.errors import EnvironmentFault
from perdure.base.names import BadName
from perdure.disk.atomic import UnsafePath, private_folder
from perdure.disk.home import StateHome
from perdure.disk.lock import PidLock

SUFFIX = ".jsonl"
LOCK_WAIT_S = 10.0
LOCK_POLL_S = 0.01
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[1-9]|lpt[1-9])")


class UnreadableSession(EnvironmentFault):
    """A file in the place of a session that is none, or is damaged: it is named, and never overwritten."""

    code = "unreadable_session"

    def __init__(self, path: str, reason: str, line: int | None = None) -> None:
        place = f" (line {line})" if line is not None else ""
        super().__init__(f"{path} is no readable session: {reason}{place}.", hint="Repair or remove it.")
        self.path = path
        self.reason = reason
        self.line = line


class SessionFile(msgspec.Struct, frozen=True):
    """One session's file as the folder lists it; `written_ns` is when it was last written."""

    session_id: str
    path: str
    size: int
    written_ns: int


def check_session_id(text: str) -> str:
    """The id itself. Raises `BadName` for what can be no id, before any file is touched."""
    if not _ID.fullmatch(text) or _RESERVED.fullmatch(text):
        raise BadName(f"{text[:60]!r} is no id of a session.", hint="`perdure session list` lists them.")
    return text


def session_path(home: StateHome, session_id: str) -> str:
    """Where the session's file is. Raises `BadName`."""
    return f"{home.agent_sessions}/{check_session_id(session_id)}{SUFFIX}"


def lock_of(path: str) -> PidLock:
    """The lock of a session's file, held while somebody appends."""
    return PidLock(f"{path.removesuffix(SUFFIX)}.lock")


def wait_for(lock: PidLock, session_id: str, limit_s: float = LOCK_WAIT_S) -> None:
    """Take the lock, waiting for whoever appends. Raises `Locked`, naming the holder."""
    lock.wait(
        limit_s,
        poll_s=LOCK_POLL_S,
        message=lambda holder: (
            f"Session {session_id} is locked by {holder}. If no Perdure process is using it, remove {lock.path} "
            f"(and {lock.path}.break, if present) and retry."
        ),
    )


def make_folder(home: StateHome) -> None:
    """The folder is there, for its owner only. Raises `UnsafePath` or `EnvironmentFault`."""
    wide = private_folder(home.agent_sessions)
    _refuse_wide(home.agent_sessions, wide is not None)


def check_folder(home: StateHome) -> bool:
    """Whether the folder is there; nothing is made. Raises `UnsafePath` when it may not be used."""
    path = home.agent_sessions
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be looked at: {error.strerror}.") from error
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafePath(f"{path} is no folder of its own; it is not followed.", hint="Move it away.")
    _refuse_wide(path, bool(stat.S_IMODE(found.st_mode) & 0o077))
    return True


def _refuse_wide(path: str, is_wide: bool) -> None:
    if is_wide and os.name != "nt":
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        raise UnsafePath(f"{path} has mode {mode:04o}; others could read conversations.", hint=f"chmod 700 {path}")


def list_files(home: StateHome) -> list[SessionFile]:
    """Every session's file, by id. Raises `UnsafePath`."""
    if not check_folder(home):
        return []
    found = []
    with os.scandir(home.agent_sessions) as entries:
        for entry in entries:
            session_id = entry.name.removesuffix(SUFFIX)
            if session_id == entry.name or not _ID.fullmatch(session_id):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(SessionFile(session_id, entry.path, status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda each: each.session_id)


def check_file(path: str) -> None:
    """Raises `UnsafePath` for a link or what is no file; FileNotFoundError when nothing is there."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise UnsafePath(f"{path} is no regular file; it is not followed.", hint="Move it away.")
