"""What a kill, a power loss, a full disk or another program does to a run directory, and what is made of it."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.base import failpoint
from perdure.base.errors import EnvironmentFault
from perdure.base.jsonvalue import JSON
from perdure.disk import process
from perdure.disk.blobs import Blobs
from perdure.kernel.events import Event
from perdure.views.progress import last_written, last_written_seq
from perdure.views.rebuild import rebuild_run_directory
from perdure.views.restore import find_run_directories, read_run_directory
from perdure.views.run_directory import RunDirectory, RunDirectoryTaken, hidden_path

from .logs import BEGIN, ENDED, Fact, answered, asked, events_of, tree, visit, write_live

FACTS: list[Fact] = [
    *BEGIN,
    *visit("plan", response="Done"),
    ("checkpoint.completed", None, {"node_id": "plan", "completed": "plan", "diff": "patch"}),
    asked("Q1"),
    answered("Q1"),
    *visit("plan", "plan@2"),
    ENDED,
]


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(str(tmp_path / "blobs"))


@pytest.fixture
def whole(tmp_path: Path, blobs: Blobs) -> dict[str, bytes]:
    """What is to be there in the end."""
    write_live(tmp_path / "whole", events_of(FACTS), blobs)
    return tree(tmp_path / "whole")


def _catch_up(folder: Path, blobs: Blobs, events: list[Event] | None = None) -> None:
    RunDirectory(str(folder), blobs).catch_up(events or events_of(FACTS))


# Kills


def _dies_after(folder: Path, blobs: Blobs, write: int) -> bool:
    """Write the directory in a process that is killed after that write; whether it was."""
    child = os.fork()
    if child == 0:
        failpoint.arm(crash_after=write)
        write_live(folder, events_of(FACTS), blobs)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.crash
def test_a_kill_after_any_write_costs_nothing(tmp_path: Path, blobs: Blobs, whole: dict[str, bytes]) -> None:
    write = 1
    while _dies_after(tmp_path / "runs" / str(write), blobs, write):
        for seen in find_run_directories(str(tmp_path / "runs")):
            assert {"run.json", "workflow.fabro", "progress.jsonl"} <= set(os.listdir(seen)), write
        _catch_up(tmp_path / "runs" / str(write), blobs)
        assert tree(tmp_path / "runs" / str(write)) == whole, f"killed after write {write}"
        write += 1
    assert write > 40
    assert not [name for name in os.listdir(tmp_path / "runs") if name.startswith(".")]


@pytest.mark.crash
def test_a_kill_in_the_middle_of_a_rebuild_leaves_whole_files_and_the_next_one_ends_it(
    tmp_path: Path, blobs: Blobs, whole: dict[str, bytes]
) -> None:
    write, died = 1, True
    while died:
        folder = tmp_path / "runs" / str(write)
        write_live(folder, events_of(FACTS), blobs)
        (folder / "nodes/plan/status.json").unlink()
        (folder / "run.json").write_bytes(b"")
        child = os.fork()
        if child == 0:
            failpoint.arm(crash_after=write)
            rebuild_run_directory(str(folder), events_of(FACTS), blobs)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        for name, content in tree(folder).items():
            assert content in (whole[name], b""), f"{name} after write {write}"
        rebuild_run_directory(str(folder), events_of(FACTS), blobs)
        assert tree(folder) == whole
        write += 1
    assert write > 15
    assert not [name for name in os.listdir(tmp_path / "runs") if name.startswith(".")]


def test_what_another_living_process_makes_is_left_to_it(tmp_path: Path, blobs: Blobs) -> None:
    ours = hidden_path(str(tmp_path / "run"), "new")
    parents = ours.replace(f".{os.getpid()}.", f".{os.getppid()}.")
    gone = ours.replace(f".{os.getpid()}.", ".4194305.")
    for path in (parents, gone, str(tmp_path / ".run.notes")):
        os.mkdir(path)
    _catch_up(tmp_path / "run", blobs)

    assert [os.path.exists(path) for path in (parents, gone, str(tmp_path / ".run.notes"))] == [True, False, True]


def test_the_end_of_the_cli_log_that_a_kill_cost_is_made_up(
    tmp_path: Path, blobs: Blobs, whole: dict[str, bytes]
) -> None:
    for number, there in enumerate((b"", whole["cli.log"][:100], whole["cli.log"][:-1], b"something else\n")):
        folder = tmp_path / f"run-{number}"
        write_live(folder, events_of(FACTS), blobs)
        (folder / "cli.log").write_bytes(there)
        _catch_up(folder, blobs)
        assert tree(folder) == whole


# Lost power


def test_a_log_file_that_is_ahead_of_the_store_is_made_anew_and_its_lines_are_kept(
    tmp_path: Path, blobs: Blobs
) -> None:
    events = events_of(FACTS)
    write_live(tmp_path / "run", events, blobs)
    stored = events[:6] + events_of(FACTS, seed=1)[6:8]
    _catch_up(tmp_path / "run", blobs, stored)

    restored = read_run_directory(str(tmp_path / "run"))
    assert (restored.events, restored.problems) == (stored, [])
    assert not (tmp_path / "run/conclusion.json").exists()
    kept = (tmp_path / "run/progress.jsonl.lost").read_bytes()
    assert kept == b"".join(event.line() for event in events[6:])


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"nonsense\n"])
def test_a_log_file_that_says_nothing_is_made_anew(
    tmp_path: Path, blobs: Blobs, whole: dict[str, bytes], content: bytes
) -> None:
    write_live(tmp_path / "run", events_of(FACTS), blobs)
    (tmp_path / "run/progress.jsonl").write_bytes(content)
    (tmp_path / "run/run.json").write_bytes(content)
    _catch_up(tmp_path / "run", blobs)

    after = tree(tmp_path / "run")
    assert after.pop("progress.jsonl.lost", b"nonsense\n") == b"nonsense\n"
    assert after == whole


def test_after_a_restart_of_the_machine_all_files_are_made_anew(tmp_path: Path, blobs: Blobs) -> None:
    now = process.current()
    for boot_id, is_mended in ((now.boot_id, False), ("an earlier one", True)):
        identity: JSON = {"host": now.host, "boot_id": boot_id, "pid": 1, "started": 1}
        events = events_of([*BEGIN[:2], ("run.started", None, {"owner": {"identity": identity}}), *visit("plan")])
        folder = tmp_path / boot_id
        write_live(folder, events, blobs)
        (folder / "nodes/plan/status.json").write_bytes(b"")
        _catch_up(folder, blobs, events)
        assert bool((folder / "nodes/plan/status.json").read_bytes()) == is_mended


# Full disks


def test_what_a_full_disk_cost_is_made_up_when_there_is_space_again(
    tmp_path: Path, blobs: Blobs, whole: dict[str, bytes]
) -> None:
    for write in range(1, 60):
        folder = tmp_path / str(write)
        failpoint.arm(fail_write=f"{write}:ENOSPC")
        try:
            with suppress(EnvironmentFault, OSError):
                write_live(folder, events_of(FACTS), blobs)
        finally:
            failpoint.arm()
        _catch_up(folder, blobs)
        assert tree(folder) == whole, f"full at write {write}"


# Others


def test_a_directory_that_somebody_made_meanwhile_is_joined(
    tmp_path: Path, blobs: Blobs, whole: dict[str, bytes]
) -> None:
    events = events_of(FACTS)
    view = RunDirectory(str(tmp_path / "run"), blobs)
    view.committed(events[:5])
    write_live(tmp_path / "run", events[:3], blobs)
    view.flush()
    view.committed(events[5:])
    view.flush()

    assert tree(tmp_path / "run") == whole


def test_a_folder_that_a_step_made_first_becomes_the_run_directory(
    tmp_path: Path, blobs: Blobs, whole: dict[str, bytes]
) -> None:
    view = RunDirectory(str(tmp_path / "run"), blobs)
    (tmp_path / "run/cache/spool").mkdir(parents=True)
    view.committed(events_of(FACTS))
    view.flush()

    assert tree(tmp_path / "run") == whole


def test_another_runs_directory_is_never_written_over(tmp_path: Path, blobs: Blobs) -> None:
    write_live(tmp_path / "run", events_of(FACTS), blobs)
    before = tree(tmp_path / "run")
    with pytest.raises(RunDirectoryTaken, match="holds run"):
        _catch_up(tmp_path / "run", blobs, events_of(FACTS, run_id="0" * 26))

    with pytest.raises(RunDirectoryTaken, match="holds run"):
        write_live(tmp_path / "run", events_of(FACTS, run_id="0" * 26), blobs)

    assert tree(tmp_path / "run") == before


def test_a_rebuild_removes_views_that_the_log_does_not_make_and_nothing_else(
    tmp_path: Path, blobs: Blobs, whole: dict[str, bytes]
) -> None:
    write_live(tmp_path / "run", events_of(FACTS), blobs)
    views = ["final.patch", "nodes/plan/stderr.log", "nodes/other/status.json", "runtime/interview_requests/Q9.json"]
    others = [
        "notes.txt", "worktree/run.json", "nodes/plan/child/run.json", "runtime/interview_response.json",
        "cache/artifacts/files/plan/retry_1/a.txt", "nodes/plan/transcript.txt",
    ]  # fmt: skip
    for name in views + others:
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text("mine")
    rebuild_run_directory(str(tmp_path / "run"), events_of(FACTS), blobs)

    assert tree(tmp_path / "run") == whole | dict.fromkeys(others, b"mine")


def test_a_rebuild_does_not_touch_files_that_are_right(tmp_path: Path, blobs: Blobs) -> None:
    write_live(tmp_path / "run", events_of(FACTS), blobs)
    paths = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in paths}
    rebuild_run_directory(str(tmp_path / "run"), events_of(FACTS), blobs)

    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in paths} == before


def test_reading_a_run_directory_changes_nothing(tmp_path: Path, blobs: Blobs) -> None:
    write_live(tmp_path / "runs/run", events_of(FACTS), blobs)
    progress = tmp_path / "runs/run/progress.jsonl"
    progress.write_bytes(progress.read_bytes() + b'{"torn')
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    for run_dir in find_run_directories(str(tmp_path / "runs")):
        read_run_directory(run_dir)
        last_written(f"{run_dir}/progress.jsonl")

    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")} == before


# Content that is large, or lost


def _printed(blobs: Blobs, content: bytes) -> list[Event]:
    begin, end = visit("test")
    out: dict[str, JSON] = {"$blob": blobs.put(content), "bytes": len(content), "form": "text"}
    return events_of([*BEGIN, begin, ("command.completed", "test", {"stdout": out, "stderr": "", "exit_code": 0}), end])


def test_a_large_output_shares_the_blobs_space_also_after_a_rebuild(tmp_path: Path, blobs: Blobs) -> None:
    events = _printed(blobs, b"x" * 2_000_000)
    write_live(tmp_path / "run", events, blobs)
    rebuild_run_directory(str(tmp_path / "run"), events, blobs)
    (tmp_path / "run/nodes/test/stdout.log").unlink()
    rebuild_run_directory(str(tmp_path / "run"), events, blobs)
    found = (tmp_path / "run/nodes/test/stdout.log").stat()

    assert (found.st_size, found.st_nlink) == (2_000_000, 2)
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp") or path.name.startswith(".")]


def test_a_small_output_is_a_copy_that_may_be_edited(tmp_path: Path, blobs: Blobs) -> None:
    write_live(tmp_path / "run", _printed(blobs, b"x" * 50_000), blobs)
    found = (tmp_path / "run/nodes/test/stdout.log").stat()

    assert (found.st_nlink, found.st_mode & 0o777) == (1, 0o600)


def test_a_lost_blob_costs_its_file_and_the_file_says_so(tmp_path: Path, blobs: Blobs) -> None:
    events = _printed(blobs, b"x" * 50_000)
    for path in (tmp_path / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    write_live(tmp_path / "run", events, blobs)

    assert "is missing" in (tmp_path / "run/nodes/test/stdout.log").read_text()
    assert (tmp_path / "run/nodes/test/status.json").exists()


# The end of the log


@pytest.mark.parametrize("size", [10, 100_000, 1_500_000])
def test_the_last_event_is_found_however_long_it_is(tmp_path: Path, blobs: Blobs, size: int) -> None:
    inner: JSON = {"seq": 99, "properties": {}, "id": "x", "run_id": "y"}
    events = events_of([*BEGIN, ("note", None, {"text": "x" * size, "inner": inner})])
    progress = tmp_path / "progress.jsonl"
    progress.write_bytes(b"".join(event.line() for event in events))

    assert last_written_seq(str(progress)) == 4


def test_a_torn_end_is_not_the_last_event(tmp_path: Path) -> None:
    first, second = (event.line() for event in events_of(BEGIN)[:2])
    for end in (b"", second[:-30], b"\xe2\x82", b"\0\0"):
        (tmp_path / "progress.jsonl").write_bytes(first + end)
        assert last_written_seq(str(tmp_path / "progress.jsonl")) == 1
    (tmp_path / "progress.jsonl").write_bytes(first + second[:-1])
    assert last_written_seq(str(tmp_path / "progress.jsonl")) == 2


def test_no_file_is_kept_open_by_a_run_that_waits_or_has_ended(tmp_path: Path, blobs: Blobs) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    views = [write_live(tmp_path / f"{n}", events_of(FACTS), blobs) for n in range(5)]
    views += [write_live(tmp_path / f"{n}", events_of([*BEGIN, ("run.waiting", None, {})]), blobs) for n in range(5, 9)]

    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
    assert len(views) == 9


def test_a_small_run_takes_little_space(tmp_path: Path, blobs: Blobs) -> None:
    write_live(tmp_path / "run", events_of([*BEGIN, *visit("only"), ENDED]), blobs)

    assert sum(len(content) for content in tree(tmp_path / "run").values()) < 6_000
