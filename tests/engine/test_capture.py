"""Files that nodes wrote are captured by patterns: only those, once, within caps, and nothing of it can hurt the run."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from perdure.base.masking import Masker
from perdure.graph import capture
from perdure.kernel.ending import RunResult
from perdure.kernel.events import Event

from .conftest import Graphs


def run(graphs: Graphs, script: str, *patterns: str, **options: Any) -> RunResult:
    (graphs.folder / "script.sh").write_text(script)
    body = f'a [shape=parallelogram, script="/bin/sh {graphs.folder}/script.sh"] start -> a -> exit'
    return graphs.run(body, artifacts=list(patterns), **options)


def run_dir(graphs: Graphs) -> Path:
    row = graphs.store.find_run(graphs.run_id)
    assert row is not None
    return Path(row.run_dir)


def captured(graphs: Graphs) -> dict[str, list[str]]:
    """The captured files by folder, as the disk has them."""
    root = run_dir(graphs) / "cache/artifacts/files"
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*")) if root.exists() else []:
        if path.is_file():
            node, retry, *rest = path.relative_to(root).parts
            found.setdefault(f"{node}/{retry}", []).append("/".join(rest))
    return found


def manifest(graphs: Graphs, folder: str = "a/retry_1") -> Any:
    return json.loads((run_dir(graphs) / "cache/artifacts/files" / folder / "manifest.json").read_text())


def notices(graphs: Graphs) -> list[str]:
    return [str(event.properties["code"]) for event in graphs.events("run.notice")]


def test_files_are_copied_with_a_manifest(graphs: Graphs) -> None:
    run(graphs, "mkdir out; echo hi > out/x.txt; printf '\\377\\000' > out/raw; echo no > other", "out/**")

    assert captured(graphs) == {"a/retry_1": ["manifest.json", "out/raw", "out/x.txt"]}
    folder = run_dir(graphs) / "cache/artifacts/files/a/retry_1"
    assert ((folder / "out/x.txt").read_bytes(), (folder / "out/raw").read_bytes()) == (b"hi\n", b"\xff\x00")
    told = manifest(graphs)
    assert {key: told[key] for key in told if key != "captured_assets"} == {
        "files_copied": 2, "total_bytes": 5, "files_skipped": 0, "download_errors": 0, "hash_errors": 0,
    }  # fmt: skip
    assert told["captured_assets"][1] == {
        "path": "out/x.txt",
        "mime": "text/plain",
        "content_md5": "764efa883dda1e11db47671c4a3bbd9e",
        "content_sha256": "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4",
        "bytes": 3,
    }


def test_what_was_there_before_the_run_is_not_captured(graphs: Graphs) -> None:
    old = graphs.work / "old.txt"
    old.write_text("old")
    past = old.stat().st_mtime - 100
    os.utime(old, (past, past))
    # The clock of a disk may tick only every few milliseconds.
    while (probe := graphs.work / "probe").write_text("") or probe.stat().st_ctime_ns <= old.stat().st_ctime_ns:
        probe.unlink()
    probe.unlink()
    run(graphs, "echo new > new.txt; cp -p old.txt copy.txt", "*.txt")

    assert captured(graphs) == {"a/retry_1": ["copy.txt", "manifest.json", "new.txt"]}


def test_a_file_is_captured_again_only_when_its_content_changed(graphs: Graphs) -> None:
    body = """a [shape=parallelogram, script="echo 1 > x.txt; echo 1 > y.txt"] b [shape=parallelogram, script="echo 1 > x.txt; echo 2 > y.txt"]
        c [shape=parallelogram, script="true"] start -> a -> b -> c -> exit"""
    graphs.run(body, artifacts=["*.txt"])

    assert captured(graphs) == {
        "a/retry_1": ["manifest.json", "x.txt", "y.txt"],
        "b/retry_1": ["manifest.json", "y.txt"],
    }


def test_each_visit_has_a_folder_of_its_own(graphs: Graphs) -> None:
    body = """a [shape=parallelogram, script="echo x >> n.txt; test $(wc -l < n.txt) = 2"]
        start -> a; a -> exit; a -> a [condition="outcome=failed"]"""
    graphs.run(body, artifacts=["n.txt"])

    assert captured(graphs) == {"a/retry_1": ["manifest.json", "n.txt"], "a/retry_2": ["manifest.json", "n.txt"]}


def test_a_resumed_run_remembers_what_was_captured(graphs: Graphs) -> None:
    body = """a [shape=parallelogram, script="echo 1 > x.txt"] g [shape=hexagon] b [shape=parallelogram, script="touch x.txt"]
        start -> a -> g; g -> b [label="[Y] Yes"]; b -> exit"""
    graphs.run(body, artifacts=["*.txt"])
    graphs.answer("Y")

    assert graphs.resume().status == "succeeded"
    assert captured(graphs) == {"a/retry_1": ["manifest.json", "x.txt"]}


def test_captured_files_are_made_again_from_the_log(graphs: Graphs) -> None:
    from perdure.views.rebuild import rebuild_run_directory

    run(graphs, "echo hi > x.txt; head -c 40000 /dev/urandom > big.bin", "x.txt", "*.bin")
    folder = run_dir(graphs) / "cache/artifacts/files"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(folder)
    rebuild_run_directory(str(run_dir(graphs)), graphs.events(), graphs.blobs)

    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert len(before) == 3


@pytest.mark.parametrize(
    "made",
    [
        "ln -s /etc/passwd link.txt", "mkdir d.txt", "mkfifo pipe.txt", "ln -s . loop", "ln -s nowhere broken.txt",
        "ln -s /etc out; touch x", "ln -s link.txt link.txt",
    ],
)  # fmt: skip
def test_what_is_no_file_of_the_folder_is_left_alone(graphs: Graphs, made: str) -> None:
    assert run(graphs, made, "*.txt", "out/*", "**/*.txt").status == "succeeded"
    assert {name for names in captured(graphs).values() for name in names} <= {"manifest.json"}


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../*", "../../*", "x/../../*"])
def test_no_pattern_leads_out_of_the_folder(graphs: Graphs, pattern: str) -> None:
    (graphs.folder / "beside.txt").write_text("x")
    run(graphs, "mkdir x", pattern)

    assert captured(graphs) == {}


def test_caps_hold_and_what_they_leave_out_is_told(graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_FILES", 3)
    monkeypatch.setattr(capture, "MAX_FILE", 10)
    monkeypatch.setattr(capture, "MAX_TOTAL", 12)
    run(
        graphs,
        "for n in 1 2 3 4 5; do printf 12345 > $n.txt; done; printf 12345678901 > big.txt; printf 1 > z.txt",
        "*.txt",
    )
    told = manifest(graphs)

    assert [asset["path"] for asset in told["captured_assets"]] == ["1.txt", "2.txt", "z.txt"]
    assert (told["files_skipped"], told["total_bytes"]) == (4, 11)
    assert "artifacts_left_out" in notices(graphs)


def test_a_file_that_cannot_be_read_costs_itself_alone(graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def denied(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith("denied.txt"):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", denied)
    assert run(graphs, "echo x > denied.txt; echo x > fine.txt", "*.txt").status == "succeeded"

    assert [asset["path"] for asset in manifest(graphs)["captured_assets"]] == ["fine.txt"]
    assert manifest(graphs)["download_errors"] == 1


def test_a_capture_that_fails_is_a_notice_and_not_the_nodes_failure(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[str]:
        raise RuntimeError("the disk turns backwards")

    monkeypatch.setattr(capture, "written", broken)
    assert run(graphs, "echo x > x.txt", "*.txt").status == "succeeded"
    assert "artifact_capture_failed" in notices(graphs)


def test_names_that_no_log_or_disk_can_hold_are_written_so_that_they_can(graphs: Graphs) -> None:
    script = "mkdir -p $(printf 'bad\\377'); echo x > $(printf 'bad\\377')/a.txt; echo x > 'two\nlines.txt'; echo x > manifest.json"
    run(graphs, script, "**/*.txt", "*.txt", "manifest.json")
    names = {asset["path"] for asset in manifest(graphs)["captured_assets"]}

    assert names == {"bad%ED%B3%BF/a.txt", "two\nlines.txt", "%6Danifest.json"}
    assert names | {"manifest.json"} == set(captured(graphs)["a/retry_1"])


def test_a_secret_in_a_captured_file_is_masked(graphs: Graphs) -> None:
    graphs.engine.mask = Masker(["hunter2-and-more"])
    (graphs.work / "key").write_text("key: hunter2-and-more\n")
    run(graphs, "cp key x.txt; { head -c 30000 /dev/zero; cat key; } > y.txt", "*.txt")
    kept = [path for folder in ("runs", "blobs") for path in (graphs.folder / folder).rglob("*") if path.is_file()]

    assert (run_dir(graphs) / "cache/artifacts/files/a/retry_1/x.txt").read_text() == "key: [masked]\n"
    assert [path for path in kept if b"hunter2" in path.read_bytes()] == []


def test_a_dry_run_captures_nothing(graphs: Graphs) -> None:
    run(graphs, "echo x > x.txt", "*.txt", dry_run=True)

    assert captured(graphs) == {}


BRANCHES = """p [shape=component] j [shape=tripleoctagon] x [shape=parallelogram, script="echo x > x.txt; echo same > same.txt"]
    y [shape=parallelogram, script="echo y > y.txt"] start -> p; p -> x; p -> y; x -> j; y -> j; j -> exit"""


def test_what_branches_wrote_in_their_worktrees_is_captured_once(graphs: Graphs, repository: Path) -> None:
    (repository / "old.txt").write_text("there before")
    import subprocess

    for arguments in (["add", "."], ["commit", "-q", "-m", "More"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    options = {"git": "worktree", "repository": str(repository), "working_directory": str(repository)}
    assert graphs.run(BRANCHES, artifacts=["*.txt"], **options).status == "succeeded"

    assert captured(graphs) == {
        "p%2Fx/retry_1": ["manifest.json", "same.txt", "x.txt"],
        "p%2Fy/retry_1": ["manifest.json", "y.txt"],
    }


def test_in_git_ignored_files_are_captured_and_committed_ones_are_not(graphs: Graphs, repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\n")
    import subprocess

    for arguments in (["add", "."], ["commit", "-q", "-m", "Ignore"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    options = {"git": "worktree", "repository": str(repository), "working_directory": str(repository)}
    run(graphs, "echo x > test.log; echo more >> README; git rm -q .gitignore", "*", **options)

    assert captured(graphs) == {"a/retry_1": ["README", "manifest.json", "test.log"]}


def test_a_log_from_elsewhere_writes_nothing_outside_of_the_run_directory(graphs: Graphs, tmp_path: Path) -> None:
    from perdure.views.rebuild import rebuild_run_directory

    run(graphs, "echo x > x.txt", "*.txt")
    events = graphs.events()
    for folder, name in (
        ("a/retry_1", "../../../../../../out.txt"),
        ("../../../..", "out.txt"),
        ("a/retry_1", str(tmp_path / "out.txt")),
    ):
        hostile = [_changed(event, folder, name) for event in events]
        rebuild_run_directory(str(tmp_path / "rebuilt"), hostile, graphs.blobs)

    assert list(tmp_path.rglob("out.txt")) == []


def _changed(event: Event, folder: str, name: str) -> Event:
    if event.event != "artifact.captured":
        return event
    import msgspec

    properties = event.properties | {"folder": folder, "files": {name: "hostile"}}
    return msgspec.structs.replace(event, body=msgspec.json.encode(properties))
