"""Pid locks: they heal when their holder is surely dead, and are never stolen from a living one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.disk import lock as locks
from perdure.disk import process
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
    for turn in range(25):
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
