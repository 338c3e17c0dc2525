"""Files that survive: whole or not at all, readable when damaged, for their owner only."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.base.errors import EnvironmentFault, Refused
from perdure.disk import atomic, jsonl
from perdure.disk.blobs import BlobDamaged, BlobMissing, Blobs
from perdure.disk.boundary import StateInsideRepository, check_state_outside
from perdure.disk.home import NoStateHome, find_state_home, workspace_id


def records(path: Path) -> list[object]:
    return [each.value for each in jsonl.read(str(path)) if isinstance(each, jsonl.Record)]


def damages(path: Path) -> list[jsonl.Damage]:
    return [each for each in jsonl.read(str(path)) if isinstance(each, jsonl.Damage)]


# Atomic replace


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([letter]) * 200_000 for letter in b"ab"]
    atomic.replace(str(path), contents[0], durable=False)
    stop = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(200):
        atomic.replace(str(path), contents[turn % 2], durable=False)
    stop.set()
    reader.join()
    assert seen <= set(contents)


def test_a_durable_write_asks_the_disk_before_and_after_the_rename(tmp_path: Path) -> None:
    code = f"from perdure.disk.atomic import replace; replace({str(tmp_path / 'f')!r}, b'x', durable=True)"
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fsync,rename,renameat,renameat2",
        "-o",
        str(trace),
        sys.executable,
        "-c",
        code,
    ]
    if subprocess.run(["sh", "-c", "command -v strace"], capture_output=True, check=False).returncode != 0:
        pytest.skip("strace is not installed")
    subprocess.run(command, check=True)
    calls = [
        line.split("(")[0].split()[-1]
        for line in trace.read_text().splitlines()
        if ("(" in line and "tmp" in line) or "fsync" in line
    ]

    assert calls == ["fsync", "rename", "fsync"]


def test_no_temporary_file_stays_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    atomic.replace(str(path), b"old", durable=False)

    def full(_handle: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(atomic.DiskFull, match="No space"):
        atomic.replace(str(path), b"new", durable=False)
    monkeypatch.undo()

    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_folders_and_files_are_for_their_owner_whatever_the_mask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        atomic.private_folder(str(tmp_path / "a/b"))
        atomic.replace(str(tmp_path / "a/b/f"), b"", durable=False)
    finally:
        os.umask(old)

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a/b/f").stat().st_mode & 0o777 == 0o600


# JSON Lines


def test_a_torn_last_line_costs_that_line_only_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b'{"n":%d}\n' % n for n in range(1, 500)) + b'{"n":500,"te')

    assert records(path) == [{"n": n} for n in range(1, 500)]
    [torn] = damages(path)
    assert (torn.line, torn.is_torn) == (500, True)
    assert torn.raw == b'{"n":500,"te'


def test_an_append_after_a_torn_line_begins_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"n":2,"t":"to')
    for number in range(3, 103):
        appender = jsonl.Appender(str(path))
        appender.append(b'{"n":%d}\n' % number)
        appender.close()

    assert records(path) == [{"n": n} for n in (1, *range(3, 103))]
    assert len(damages(path)) == 1


def test_an_append_after_half_a_character_works(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"t":"\xe2\x82')
    appender = jsonl.Appender(str(path))
    appender.append(b'{"n":2}\n')
    appender.close()

    assert records(path) == [{"n": 1}, {"n": 2}]


def test_a_whole_last_line_without_its_end_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"n":2}')
    assert records(path) == [{"n": 1}, {"n": 2}]
    assert damages(path) == []
    appender = jsonl.Appender(str(path))
    appender.append(b'{"n":3}\n')
    appender.close()
    assert records(path) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_two_records_on_one_line_are_both_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}{"n":2}\n{"n":3}\n')
    assert records(path) == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("bad", [b'{"a":"\xff"}', b"[" * 100_000, b"\0" * 4096, b"nonsense", b'{"a":'])
def test_a_bad_record_costs_itself_only(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n' + bad + b'\n{"n":2}\n')

    assert records(path) == [{"n": 1}, {"n": 2}]
    assert [each.line for each in damages(path)] == [2]


@settings(max_examples=50)
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30), max_size=8))
def test_separators_inside_texts_never_split_a_record(texts: list[str]) -> None:
    import tempfile

    import msgspec

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        appender = jsonl.Appender(str(path))
        for text in [*texts, "a\u2028b\u0085c\x0bd"]:
            appender.append(msgspec.json.encode({"t": text}) + b"\n")
        appender.close()
        assert records(path) == [{"t": text} for text in [*texts, "a\u2028b\u0085c\x0bd"]]


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    path, victim = tmp_path / "log", tmp_path / "victim"
    victim.write_text("precious")
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises((atomic.UnsafePath, EnvironmentFault)):
        jsonl.Appender(str(path))
    assert victim.read_text() == "precious"


def test_a_reader_goes_on_where_it_stopped_and_waits_for_a_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"n":2}{"n":3}\n{"n":4,"te')
    *whole, torn = jsonl.read(str(path))
    assert isinstance(torn, jsonl.Damage)
    assert torn.is_torn
    for each in whole:
        rest = list(jsonl.read(str(path), each.end, line=each.line))
        assert rest[0].raw == (*whole, torn)[whole.index(each) + 1].raw
    with path.open("ab") as file:
        file.write(b'xt":"x"}\n{"n":5}\n')

    assert [each.raw for each in jsonl.read(str(path), torn.offset)] == [b'{"n":4,"text":"x"}', b'{"n":5}']


def test_a_record_with_a_key_twice_is_flagged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"a":1,"b":{"n":2,"n":3}}\n{ "n": 4.0 , "m": "\\u0041" }\n[{"n":5},{"n":5}]\n')

    assert records(path) == [{"n": 1}, {"n": 4.0, "m": "A"}, [{"n": 5}, {"n": 5}]]
    assert [(each.line, each.reason) for each in damages(path)] == [(2, "a key is there twice")]


def test_a_number_of_5000_digits_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"n":' + b"9" * 5_000 + b'}\n{"n":2}\n')
    assert records(path) == [{"n": 1}, {"n": 2}]
    assert [each.line for each in damages(path)] == [2]


def test_a_line_that_is_too_long_is_one_damage_and_the_next_line_is_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE", 1_000)
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"t":"' + b"x" * 700_000 + b'"}\n{"n":2}\n')

    assert [(each.line, each.value) for each in jsonl.read(str(path)) if isinstance(each, jsonl.Record)] == [
        (1, {"n": 1}),
        (3, {"n": 2}),
    ]
    assert [(each.line, each.offset) for each in damages(path)] == [(2, 8)]


def test_many_that_append_to_one_log_lose_no_record(tmp_path: Path) -> None:
    code = """
import sys
from perdure.disk.jsonl import Appender
log = Appender(sys.argv[1])
for number in range(200):
    log.append(b'{"who":%d,"n":%d}\\n' % (int(sys.argv[2]), number))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "log")]
    for writer in [subprocess.Popen([*command, str(who)]) for who in range(4)]:
        assert writer.wait() == 0
    found = records(tmp_path / "log")
    assert damages(tmp_path / "log") == []
    for who in range(4):
        assert [each["n"] for each in found if isinstance(each, dict) and each["who"] == who] == [*range(200)]


# Blobs


def test_content_is_kept_once_and_comes_back(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path))
    digest = blobs.put(b"content")
    assert blobs.put(b"content") == digest
    assert blobs.read(digest) == b"content"
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1
    source = tmp_path / "big"
    source.write_bytes(b"moved")
    adopted, size = blobs.adopt(str(source))
    assert (blobs.read(adopted), size, source.exists()) == (b"moved", 5, False)


def test_a_missing_and_a_damaged_blob_are_named(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path))
    digest = blobs.put(b"content")
    path = Path(blobs.path(digest))
    path.chmod(0o600)
    path.write_bytes(b"other")
    with pytest.raises(BlobDamaged, match=digest):
        blobs.read(digest)
    path.unlink()
    with pytest.raises(BlobMissing, match=digest):
        blobs.read(digest)


# Homes and boundaries


def test_content_that_is_kept_again_heals_a_cut_file(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path))
    digest = blobs.put(b"content")
    path = Path(blobs.path(digest))
    path.chmod(0o600)
    path.write_bytes(b"")
    blobs.put(b"content")
    assert blobs.read(digest) == b"content"
    path.chmod(0o600)
    path.write_bytes(b"cont")
    (tmp_path / "made").write_bytes(b"content")
    blobs.adopt(str(tmp_path / "made"))
    assert blobs.verify(digest) == len(b"content")


def test_a_blob_is_verified_without_reading_it_at_once(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path))
    digest = blobs.put(b"x" * 3_000_000)
    assert blobs.verify(digest) == 3_000_000
    path = Path(blobs.path(digest))
    assert path.stat().st_mode & 0o777 == 0o400
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"y")
    with pytest.raises(BlobDamaged, match=digest):
        blobs.verify(digest)
    path.unlink()
    with pytest.raises(BlobMissing, match=digest):
        blobs.verify(digest)


@pytest.mark.parametrize("digest", ["", "abc", "../" * 22, "A" * 64, "0" * 63 + "/"])
def test_what_is_no_digest_names_no_blob(tmp_path: Path, digest: str) -> None:
    with pytest.raises(Refused, match="no SHA-256"):
        Blobs(str(tmp_path)).path(digest)


def test_many_keep_the_same_content_at_once(tmp_path: Path) -> None:
    code = """
import sys
from perdure.disk.blobs import Blobs
blobs = Blobs(sys.argv[1])
sys.stdin.read(1)
for number in range(50):
    content = b"%d" % number * 1000
    assert blobs.read(blobs.put(content)) == content
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    keepers = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(4)]
    for keeper in keepers:
        assert keeper.stdin is not None
        keeper.stdin.write(b"!")
        keeper.stdin.flush()
    for keeper in keepers:
        keeper.communicate()
    assert [keeper.returncode for keeper in keepers] == [0] * 4
    kept = [each.name for each in tmp_path.rglob("*") if each.is_file()]
    assert len(kept) == 50
    assert not [name for name in kept if name.endswith(".tmp")]


def test_the_state_home_is_found_in_its_order(tmp_path: Path) -> None:
    environ = {"PERDURE_STATE_HOME": "/p", "XDG_STATE_HOME": "/x", "HOME": str(tmp_path)}
    assert find_state_home("/given", environ).root == "/given"
    assert find_state_home(None, environ).root == "/p"
    assert find_state_home(None, {"XDG_STATE_HOME": "/x", "HOME": str(tmp_path)}).root == "/x/perdure"
    assert find_state_home(None, {"HOME": str(tmp_path)}).root == f"{tmp_path}/.local/state/perdure"
    with pytest.raises(NoStateHome, match="PERDURE_STATE_HOME"):
        find_state_home(None, {"HOME": "/nowhere"})


def test_one_folder_has_one_id_and_two_have_two(tmp_path: Path) -> None:
    names = ["a-b", "a_b", "a b", "A", "a", "caf\u00e9", "cafe\u0301", "工程"]
    for name in names:
        (tmp_path / name).mkdir()
    ids = {workspace_id(str(tmp_path / name)) for name in names}
    assert len(ids) == len(names)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert workspace_id(str(tmp_path / "link")) == workspace_id(str(tmp_path / "a/../a"))
    assert all(len(each) == 12 for each in ids)


def test_state_in_a_repository_is_refused_also_through_links(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    (repository / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(repository / "inner")
    (repository / "out").symlink_to(tmp_path / "elsewhere")
    for state in (repository, repository / "x", tmp_path / "link" / "x", repository / "out"):
        with pytest.raises(StateInsideRepository):
            check_state_outside(str(state), str(repository))
    check_state_outside(str(tmp_path / "repository"), str(repository))
    check_state_outside(str(tmp_path), str(repository))


def test_state_in_a_repository_that_has_another_name_too_is_refused(tmp_path: Path) -> None:
    """As on a disk that is blind to case, where `Repo` and `repo` are one folder."""
    repository, other = tmp_path / "repo", tmp_path / "other"
    repository.mkdir()
    other.mkdir()
    if (
        subprocess.run(["mount", "--bind", str(repository), str(other)], capture_output=True, check=False).returncode
        != 0
    ):
        pytest.skip("no folder can be mounted here")
    try:
        with pytest.raises(StateInsideRepository):
            check_state_outside(str(other / "state"), str(repository))
    finally:
        subprocess.run(["umount", str(other)], check=True)
