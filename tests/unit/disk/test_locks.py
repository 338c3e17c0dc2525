"""Pid locks: they heal when their holder is surely dead, and are never stolen from a living one."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.disk import lock as locks
from perdure.disk import process
from perdure.disk.atomic import DiskFull
from perdure.disk.lock import Locked, PidLock, describe_holder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_a_lock_is_its_owners_pid_and_nothing_else(path: Path) -> None:
    with PidLock(str(path)):
        assert path.read_text() == str(os.getpid())
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_a_lock_is_held_against_this_process_too(path: Path) -> None:
    with PidLock(str(path)), pytest.raises(Locked, match=f"pid {os.getpid()}"):
        PidLock(str(path)).acquire()


def test_a_dead_holders_lock_is_taken_over(path: Path) -> None:
    path.write_text(str(dead_pid()))
    with PidLock(str(path)):
        assert path.read_text() == str(os.getpid())
    assert list(path.parent.iterdir()) == []


def test_a_living_holder_is_named_and_keeps_its_lock_however_old(path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        path.write_text(str(holder.pid))
        with pytest.raises(Locked) as caught:
            PidLock(str(path)).acquire()
        assert caught.value.holder == f"pid {holder.pid}"
        holder.send_signal(19)
        with pytest.raises(Locked):
            PidLock(str(path)).acquire()
        holder.send_signal(18)
        assert path.read_text() == str(holder.pid)
    finally:
        holder.kill()
        holder.communicate()


def test_a_pid_that_was_given_away_since_is_not_the_holder(path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        path.write_text(str(other.pid))
        os.utime(path, (1_000_000_000, 1_000_000_000))
        with PidLock(str(path)):
            assert path.read_text() == str(os.getpid())
    finally:
        other.kill()
        other.communicate()


def test_a_fresh_empty_lock_is_being_taken_and_an_old_one_is_abandoned(path: Path) -> None:
    path.touch()
    with pytest.raises(Locked) as caught:
        PidLock(str(path)).acquire()
    assert caught.value.holder == "a process that is taking it now; retry"
    old = time.time() - locks.EMPTY_GRACE_S - 1
    os.utime(path, (old, old))
    with PidLock(str(path)):
        assert path.read_text() == str(os.getpid())


@pytest.mark.parametrize("content", ["True", "-1", "0", "12 34", "99999999999999999999999", "x" * 1_000_000])
def test_what_is_no_pid_is_never_removed_nor_signalled(path: Path, content: str) -> None:
    path.write_text(content)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    with pytest.raises(Locked) as caught:
        PidLock(str(path)).acquire()
    assert caught.value.holder == f"an unknown process (if none is running, remove {path})"
    assert path.read_text() == content


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_what_is_no_file_is_left_alone(path: Path, kind: str) -> None:
    victim = path.parent / "victim"
    victim.write_text("precious")
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(victim)
    else:
        os.mkfifo(path)
    with pytest.raises(Locked):
        PidLock(str(path)).acquire()
    assert victim.read_text() == "precious"
    assert os.path.lexists(path)


def test_nobody_breaks_a_lock_while_another_does(path: Path) -> None:
    pid = dead_pid()
    path.write_text(str(pid))
    breaking = path.with_name("lock.break")
    breaking.write_text("1")
    with pytest.raises(Locked) as caught:
        PidLock(str(path)).acquire()
    expected = f"pid {pid}, which has exited (if no process is taking the lock over, remove {path}.break)"
    assert caught.value.holder == expected
    assert breaking.read_text() == "1"


def test_a_late_release_never_removes_somebody_elses_lock(path: Path) -> None:
    mine = PidLock(str(path))
    mine.acquire()
    path.unlink()
    path.write_text("1")
    mine.release()
    mine.release()
    assert path.read_text() == "1"


def test_a_lock_that_is_released_meanwhile_is_taken(path: Path) -> None:
    holder = PidLock(str(path))
    holder.acquire()
    waiting = PidLock(str(path))
    holder.release()
    waiting.wait(1.0)
    assert describe_holder(str(path)) == f"pid {os.getpid()}"
    waiting.release()


def test_a_child_of_the_holder_holds_nothing(path: Path) -> None:
    code = """
import os, sys
from perdure.disk.lock import Locked, PidLock
lock = PidLock(sys.argv[1])
lock.acquire()
forked = os.fork()
if not forked:
    lock.release()
    os._exit(os.path.exists(sys.argv[1]))
print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
lock.release()
"""
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "1\n"
    assert not path.exists()


# Clocks and pids


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A living process that has the lock."""
    code = (
        "import sys; from perdure.disk.lock import PidLock; PidLock(sys.argv[1]).acquire(); print(); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_a_clock_that_was_set_takes_no_lock_from_its_living_holder(path: Path, holder: subprocess.Popen[str]) -> None:
    os.utime(path, (1_000_000_000, 1_000_000_000))
    with pytest.raises(Locked, match=f"pid {holder.pid}$"):
        PidLock(str(path)).acquire()
    assert path.read_text() == str(holder.pid)


def test_a_lock_of_an_earlier_process_with_this_pid_is_abandoned(path: Path) -> None:
    path.write_text(str(os.getpid()))
    began = process.start_time_ms(os.getpid())
    assert began is not None
    os.utime(path, (began / 1000 - 0.5, began / 1000 - 0.5))
    with PidLock(str(path)):
        assert path.read_text() == str(os.getpid())


def test_a_lock_that_names_this_process_is_held(path: Path) -> None:
    path.write_text(str(os.getpid()))
    with pytest.raises(Locked, match=f"pid {os.getpid()}$"):
        PidLock(str(path)).acquire()


def test_where_the_kernel_keeps_no_marks_this_process_still_knows_its_own_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_HAS_MARKS", False)
    with PidLock(str(path)):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        with pytest.raises(Locked, match=f"pid {os.getpid()}$"):
            PidLock(str(path)).acquire()
    assert not path.exists()


def test_a_zombie_holds_nothing(path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    path.write_text(str(child.pid))
    with PidLock(str(path)):
        assert path.read_text() == str(os.getpid())
    child.communicate()


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**70])
def test_nothing_exists_under_a_number_that_is_no_pid(pid: int) -> None:
    assert not process.exists(pid)


# A lock that is made and broken meanwhile


def test_a_lock_whose_pid_could_not_be_written_is_not_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("os.write", _full)
        with pytest.raises(DiskFull):
            PidLock(str(path)).acquire()
    assert list(path.parent.iterdir()) == []


def test_a_creator_that_stalled_removes_no_lock_of_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_meanwhile(_handle: int, _content: bytes) -> int:
        path.unlink()
        path.write_text("1")
        return _full(_handle, _content)

    with monkeypatch.context() as patch:
        patch.setattr("os.write", broken_meanwhile)
        with pytest.raises(DiskFull):
            PidLock(str(path)).acquire()
    assert path.read_text() == "1"


def test_a_creator_whose_empty_lock_was_broken_does_not_have_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def broken_meanwhile(handle: int, content: bytes) -> int:
        if path.exists() and not path.read_bytes():
            path.unlink()
            path.write_text("1")
        return write(handle, content)

    with monkeypatch.context() as patch:
        patch.setattr("os.write", broken_meanwhile)
        with pytest.raises(Locked, match=r"pid 1$"):
            PidLock(str(path)).acquire()
    assert path.read_text() == "1"


def _full(_handle: int, _content: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


# Waiting


def test_whoever_waits_is_told_in_the_callers_words(path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(Locked) as caught:
        PidLock(str(path)).wait(0.05, message=lambda holder: f"session s is locked by {holder}; remove {path}")
    assert str(caught.value) == f"session s is locked by pid {holder.pid}; remove {path}"


def test_whoever_waits_gets_the_lock_of_a_holder_that_dies(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    PidLock(str(path)).wait(10.0)
    assert path.read_text() == str(os.getpid())


def test_a_lock_that_is_never_taken_over_stays_when_its_holder_is_dead(path: Path) -> None:
    pid = dead_pid()
    path.write_text(str(pid))
    with pytest.raises(Locked):
        PidLock(str(path)).wait(0.05, take_over=False)
    assert path.read_text() == str(pid)


_RACE = """
import sys
from perdure.disk.lock import Locked, PidLock
path = sys.argv[1]
for line in sys.stdin:
    try:
        lock = PidLock(path)
        lock.acquire()
    except Locked:
        print("no", flush=True)
    else:
        print("yes", flush=True)
        sys.stdin.readline()
        lock.release()
        print("released", flush=True)
        continue
    sys.stdin.readline()
    print("released", flush=True)
"""


def test_of_eight_that_break_one_stale_lock_exactly_one_owns_it(path: Path) -> None:
    pipe = subprocess.PIPE
    racers = [
        subprocess.Popen([sys.executable, "-c", _RACE, str(path)], stdin=pipe, stdout=pipe, text=True, bufsize=1)
        for _ in range(8)
    ]
    stale = dead_pid()
    for turn in range(200):
        path.write_text(str(stale))
        for racer in racers:
            racer.stdin.write("go\n")  # type: ignore[union-attr]
            racer.stdin.flush()  # type: ignore[union-attr]
        answers = [racer.stdout.readline().strip() for racer in racers]  # type: ignore[union-attr]
        assert answers.count("yes") == 1, (turn, answers)
        for racer in racers:
            racer.stdin.write("release\n")  # type: ignore[union-attr]
            racer.stdin.flush()  # type: ignore[union-attr]
        assert [racer.stdout.readline().strip() for racer in racers] == ["released"] * 8  # type: ignore[union-attr]
        assert not path.exists()
    for racer in racers:
        racer.communicate()


def test_a_process_is_known_by_more_than_its_pid() -> None:
    me = process.current()
    assert process.liveness(me) == "alive"
    assert process.liveness(process.Identity(me.host, me.boot_id, me.pid, me.started + 1)) == "dead"
    assert process.liveness(process.Identity(me.host, "another boot", me.pid, me.started)) == "dead"
    assert process.liveness(process.Identity("another host", me.boot_id, me.pid, me.started)) == "unknown"
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    identity = process.of_pid(child.pid)
    child.stdout.read()  # type: ignore[union-attr]
    deadline = time.monotonic() + 10
    while identity is not None and process.liveness(identity) == "alive":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # It has ended and nobody has waited for it: a zombie does nothing any more.
    child.communicate()
