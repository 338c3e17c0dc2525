"""Who a process is, so that a pid that was given to another program is not taken for the one that died.

A process is its host, the boot it lives in, its pid and its start time. On Linux the kernel's files answer without a library;
elsewhere psutil does.
"""

import os
import time
from typing import Literal

import msgspec

Liveness = Literal["alive", "dead", "unknown"]
_HAS_PROC = os.path.exists("/proc/self/stat")


class Identity(msgspec.Struct, frozen=True):
    """One process. `started` is in clock ticks since boot on Linux, in epoch milliseconds elsewhere."""

    host: str
    boot_id: str
    pid: int
    started: int


_current: Identity | None = None


def current() -> Identity:
    """This process."""
    global _current
    if _current is None or _current.pid != os.getpid():
        pid = os.getpid()
        _current = Identity(_host(), _boot_id(), pid, started_at(pid) or 0)
    return _current


def of_pid(pid: int) -> Identity | None:
    """The process that has this pid on this host now; None when there is none, or only a zombie."""
    started = started_at(pid)
    return None if started is None else Identity(_host(), _boot_id(), pid, started)


def liveness(identity: Identity) -> Liveness:
    """Whether exactly this process lives; `unknown` when it belongs to another host."""
    if identity.host != _host():
        return "unknown"
    if identity.boot_id != _boot_id():
        return "dead"
    started = started_at(identity.pid)
    return "alive" if started is not None and started == identity.started else "dead"


def started_at(pid: int) -> int | None:
    """When the process with this pid began; None when there is none. A zombie is none: it does nothing any more."""
    if pid <= 0:
        return None
    if _HAS_PROC:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name may hold spaces and parentheses, so the fields are counted from its end.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if fields[0] in (b"Z", b"X", b"x") else int(fields[19])
    import psutil

    try:
        found = psutil.Process(pid)
        return None if found.status() == psutil.STATUS_ZOMBIE else round(found.create_time() * 1000)
    except psutil.Error:
        return None


def exists(pid: int) -> bool:
    """Whether a process with this pid does anything any more; one that this user may not look at counts. Nothing is sent to it."""
    if pid <= 0:
        return False
    if started_at(pid) is not None:
        return True
    if os.name == "nt":
        import psutil

        return bool(psutil.pid_exists(pid))  # there a signal 0 would be sent
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False  # it may be asked, and has no start: it is a zombie


def start_time_ms(pid: int) -> int | None:
    """When the process began, in epoch milliseconds; None when there is none. Good to about 10 ms."""
    started = started_at(pid)
    if started is None or not _HAS_PROC:
        return started
    return _boot_time_ms() + started * 1000 // os.sysconf("SC_CLK_TCK")


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


_known_boot_id: str | None = None


def _boot_id() -> str:
    global _known_boot_id
    if _known_boot_id is None:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                _known_boot_id = file.read().strip()
        except OSError:
            import psutil

            _known_boot_id = str(round(psutil.boot_time()))
    return _known_boot_id


def _boot_time_ms() -> int:
    """When the machine began, by the clock as it is set now."""
    return round((time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) * 1000)
