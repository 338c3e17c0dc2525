"""Killed at any durable write, a process leaves the old content or the new, and what it leaves is in nobody's way."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.disk import atomic, jsonl
from perdure.disk.blobs import Blobs
from perdure.disk.lock import PidLock

pytestmark = pytest.mark.crash

_WORK = """
import os, sys
from perdure.disk import atomic, jsonl
from perdure.disk.blobs import Blobs
from perdure.disk.lock import PidLock
root = sys.argv[1]
lock = PidLock(f"{root}/lock")
lock.acquire()
log = jsonl.Appender(f"{root}/log")
blobs = Blobs(f"{root}/blobs")
for number in range(1, 4):
    blobs.put(b"content %d" % number)
    log.append(b'{"n":%d}\\n' % number)
    atomic.replace(f"{root}/file", b"content %d" % number, durable=True)
log.sync()
log.close()
lock.release()
"""
_WRITES = 1 + 3 * 3 + 1


@pytest.mark.parametrize("write", range(1, _WRITES + 1))
def test_after_a_kill_all_that_was_finished_is_whole_and_the_work_can_be_done_again(tmp_path: Path, write: int) -> None:
    command = [sys.executable, "-c", _WORK, str(tmp_path)]
    killed = subprocess.run(command, env={"PERDURE_CRASH_AFTER": str(write)}, check=False)
    assert killed.returncode == -signal.SIGKILL
    rounds, step = divmod(write - 1, 3)
    if 1 < write < _WRITES:
        assert (tmp_path / "lock").read_text().isdigit()
        assert len([each for each in (tmp_path / "blobs").rglob("*") if each.is_file()]) == rounds + (step > 0)
        assert len(list(jsonl.read(str(tmp_path / "log")))) == rounds + (step > 1)
        assert not rounds or (tmp_path / "file").read_bytes() == b"content %d" % rounds
    subprocess.run(command, check=True, timeout=30)

    assert (tmp_path / "file").read_bytes() == b"content 3"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["blobs", "file", "log"]


_HALF = """
import os, signal, sys
from perdure.disk import atomic, jsonl
from perdure.disk.blobs import Blobs
path, what = sys.argv[1:]
write = os.write
def half(handle, content):
    write(handle, bytes(content[: len(content) // 2]))
    os.kill(os.getpid(), signal.SIGKILL)
if what == "append":
    log = jsonl.Appender(path)
os.write = half
if what == "replace":
    atomic.replace(path, b"n" * 1000, durable=True)
elif what == "append":
    log.append(b'{"n":2}\\n')
else:
    Blobs(path).put(b"content")
"""


def killed_half_way(path: Path, what: str) -> None:
    ran = subprocess.run([sys.executable, "-c", _HALF, str(path), what], check=False)
    assert ran.returncode == -signal.SIGKILL


def test_a_kill_in_the_middle_of_a_replace_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.replace(str(path), b"old", durable=True)
    killed_half_way(path, "replace")
    assert path.read_bytes() == b"old"


def test_a_kill_in_the_middle_of_an_append_costs_that_record(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n')
    killed_half_way(path, "append")
    log = jsonl.Appender(str(path))
    log.append(b'{"n":3}\n')
    log.close()
    assert [each.value for each in jsonl.read(str(path)) if isinstance(each, jsonl.Record)] == [{"n": 1}, {"n": 3}]


def test_a_kill_in_the_middle_of_a_blob_leaves_none(tmp_path: Path) -> None:
    killed_half_way(tmp_path, "blob")
    blobs = Blobs(str(tmp_path))
    digest = blobs.put(b"content")
    assert blobs.read(digest) == b"content"


def test_the_lock_of_a_killed_process_is_free_although_its_child_lives(tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
from perdure.disk.lock import PidLock
PidLock(sys.argv[1]).acquire()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=0, close_fds=False)
forked = os.fork()
if not forked:
    sys.stdin.readline()
    os._exit(0)
print("ready", flush=True)
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    assert holder.wait() == -signal.SIGKILL
    with PidLock(str(path)):
        pass
    assert holder.stdin is not None
    holder.stdin.close()
    holder.stdout.close()
