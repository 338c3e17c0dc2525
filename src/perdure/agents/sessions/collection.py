"""Keeping the store of sessions within bounds: above a size, the sessions that were written longest ago go. Nothing else
removes one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec

from perdure.agents.sessions.files import SessionFile, list_files, lock_of
from perdure.base import failpoint
from perdure.base.errors import EnvironmentFault
from perdure.disk.home import StateHome
from perdure.disk.lock import Locked
from perdure.kernel.capacity.limits import AgentSessions


class Collected(msgspec.Struct, frozen=True):
    """What was collected, or would be; sizes of all sessions before and after in bytes; `kept` says why others stayed."""

    removed: tuple[SessionFile, ...]
    bytes_before: int
    bytes_after: int
    kept: tuple[str, ...] = ()


def oldest_first(files: Iterable[SessionFile], in_use: AbstractSet[str]) -> list[SessionFile]:
    """What may be collected, in the order in which it goes."""
    found = [each for each in files if each.session_id not in in_use]
    return sorted(found, key=lambda each: (each.written_ns, each.session_id))


def collect(home: StateHome, limits: AgentSessions, in_use: AbstractSet[str], *, dry_run: bool = False) -> Collected:
    """Remove the sessions written longest ago until the bounds hold; never one in use, nor one that a process appends to.

    A dry run removes nothing and does not look at locks. Raises `UnsafePath` or `EnvironmentFault`.
    """
    files = list_files(home)
    before = total = sum(each.size for each in files)
    removed: list[SessionFile] = []
    kept: list[str] = []
    if total > limits.max_bytes:
        for each in oldest_first(files, in_use):
            if total <= limits.target_bytes:
                break
            reason = "" if dry_run else _remove(each)
            if reason:
                kept.append(reason)
            else:
                removed.append(each)
                total -= each.size
    return Collected(tuple(removed), before, total, tuple(kept))


def _remove(file: SessionFile) -> str:
    """Remove a session under its lock; why it was not, else empty."""
    lock = lock_of(file.path)
    try:
        lock.acquire()
    except Locked as error:
        return f"Session {file.session_id} is kept: it is locked by {error.holder}."
    try:
        found = os.lstat(file.path)
        if found.st_mtime_ns != file.written_ns or found.st_size != file.size:
            return f"Session {file.session_id} is kept: it was written a moment ago."
        failpoint.before_write("sessions.collect")
        os.unlink(file.path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise EnvironmentFault(f"{file.path} cannot be removed: {error.strerror}.") from error
    finally:
        lock.release()
    failpoint.after_write("sessions.collect")
    return ""
