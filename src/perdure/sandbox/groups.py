"""Process groups: what a command started, found and ended, also by the next owner of a run whose owner died.

A command runs in a session of its own, and its environment carries a mark, so that children which left the group are found too.
"""

import os
import signal
import time

import msgspec

from perdure.disk import process

MARK = "PERDURE_STEP_MARK"
GRACE_S = 2.0


class Group(msgspec.Struct, frozen=True):
    """A command's process group: its leader, and the mark in the environment of all that it started."""

    leader: process.Identity
    mark: str


def members(group: Group) -> list[int]:
    """The living processes of the group, those with its mark too; never this one."""
    own = os.getpid()
    leader_lives = process.liveness(group.leader) == "alive"
    found = []
    for pid in _pids_since(group.leader.pid):
        started = process.started_at(pid) if pid != own else None
        # What the command started began after it, so older processes need no closer look.
        if started is not None and started >= group.leader.started and _belongs(pid, group, leader_lives):
            found.append(pid)
    return found


def _belongs(pid: int, group: Group, leader_lives: bool) -> bool:
    if _has_mark(pid, group.mark):
        return True
    # Without the mark only the number of the group is left, and that may have been given away since.
    if not leader_lives:
        return False
    try:
        return os.getpgid(pid) == group.leader.pid or os.getsid(pid) == group.leader.pid
    except OSError:
        return False


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def _pids_since(first: int) -> list[int]:
    """The pids that were given out since this one, or all when the numbers have begun again."""
    pids = _all_pids()
    try:
        with open("/proc/loadavg", "rb") as file:
            last = int(file.read().split()[-1])
    except OSError:
        return pids
    return [pid for pid in pids if first <= pid <= last] if last >= first else pids


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        import psutil

        return [int(pid) for pid in psutil.pids()]


def send(group: Group, number: int) -> int:
    """Send a signal to every process of the group; how many there were."""
    pids = members(group)
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
    return len(pids)


def kill_all(group: Group, limit_s: float = 5.0) -> list[int]:
    """Kill the group until nothing of it is left, also what is born meanwhile; the pids that would not go."""
    deadline = time.monotonic() + limit_s
    while send(group, signal.SIGKILL):
        if time.monotonic() > deadline:
            return members(group)
        time.sleep(0.01)
    return []


def end_leftovers(group: Group) -> list[int]:
    """End what is left of a command whose owner died: politely, then not; the pids that would not go."""
    if process.liveness(group.leader) == "unknown":
        return []
    if not send(group, signal.SIGTERM):
        return []
    deadline = time.monotonic() + GRACE_S
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.02)
    return kill_all(group)
