"""A full disk costs the write that met it, and nothing that was there before."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.base import failpoint
from perdure.base.errors import EnvironmentFault
from perdure.disk import atomic, jsonl
from perdure.disk.blobs import Blobs
from perdure.disk.lock import PidLock


@pytest.fixture
def failing() -> Iterator[Callable[[str], None]]:
    """Every durable write fails from now on, with the named error."""
    yield lambda name: failpoint.arm(fail_write=f"1:{name}")
    failpoint.arm()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(path)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


WRITES: dict[str, Callable[[Path], object]] = {
    "replace": lambda folder: atomic.replace(str(folder / "file"), b"new", durable=True),
    "new": lambda folder: atomic.write_new(str(folder / "new"), b"new"),
    "append": lambda folder: jsonl.Appender(str(folder / "log")).append(b'{"n":2}\n'),
    "sync": lambda folder: jsonl.Appender(str(folder / "log")).sync(),
    "blob": lambda folder: Blobs(str(folder)).put(b"content"),
    "lock": lambda folder: PidLock(str(folder / "lock")).acquire(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize(
    ("name", "error"), [("ENOSPC", atomic.DiskFull), ("EDQUOT", atomic.DiskFull), ("EIO", EnvironmentFault)]
)
def test_every_write_that_fails_is_explained_and_leaves_nothing(
    tmp_path: Path, failing: Callable[[str], None], write: Callable[[Path], object], name: str, error: type[Exception]
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "log").write_bytes(b'{"n":1}\n')
    before = files(tmp_path)
    failing(name)
    with pytest.raises(error, match=str(tmp_path)):
        write(tmp_path)

    assert files(tmp_path) == before


def test_what_fits_no_more_leaves_the_old_file_whole(small_disk: Path) -> None:
    path = small_disk / "file"
    atomic.replace(str(path), b"old" * 1_000, durable=True)
    with pytest.raises(atomic.DiskFull, match="No space"):
        atomic.replace(str(path), b"n" * 500_000, durable=True)

    assert files(small_disk) == {"file": b"old" * 1_000}
    atomic.replace(str(path), b"new", durable=True)
    assert path.read_bytes() == b"new"


def test_a_blob_that_fits_no_more_leaves_no_part(small_disk: Path) -> None:
    blobs = Blobs(str(small_disk))
    with pytest.raises(atomic.DiskFull):
        blobs.put(b"n" * 500_000)

    assert files(small_disk) == {}
    assert blobs.read(blobs.put(b"small")) == b"small"


def test_the_record_after_one_that_fitted_no_more_is_whole(small_disk: Path) -> None:
    log = jsonl.Appender(str(small_disk / "log"))
    log.append(b'{"n":1}\n')
    with pytest.raises(atomic.DiskFull):
        log.append(b'{"n":2,"text":"' + b"x" * 500_000 + b'"}\n')
    (small_disk / "ballast").touch()
    os.truncate(small_disk / "log", 4_000)  # some space is free again, and the end is still torn
    log.append(b'{"n":3}\n')
    log.close()

    found = list(jsonl.read(str(small_disk / "log")))
    assert [each.value for each in found if isinstance(each, jsonl.Record)] == [{"n": 1}, {"n": 3}]
    assert [each.line for each in found if isinstance(each, jsonl.Damage)] == [2]


def test_a_write_that_was_cut_short_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr("os.write", lambda handle, content: write(handle, bytes(content[:7])))
    atomic.replace(str(tmp_path / "file"), b"0123456789" * 10, durable=False)
    log = jsonl.Appender(str(tmp_path / "log"))
    log.append(b'{"n":"0123456789"}\n')
    log.close()
    monkeypatch.undo()

    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10
    assert (tmp_path / "log").read_bytes() == b'{"n":"0123456789"}\n'


def test_an_append_that_failed_before_its_first_byte_leaves_no_empty_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = jsonl.Appender(str(tmp_path / "log"))
    log.append(b'{"n":1}\n')

    def full(_handle: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        with pytest.raises(atomic.DiskFull):
            log.append(b'{"n":2}\n')
    log.append(b'{"n":3}\n')
    log.close()

    assert (tmp_path / "log").read_bytes() == b'{"n":1}\n{"n":3}\n'
