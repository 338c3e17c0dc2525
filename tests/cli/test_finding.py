"""Which run a person means, and runs whose files or folders have moved."""

import json
import os
import shutil
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED, HELLO, only_run


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """A workflow that ends at once."""
    path = tmp_path / "hello.fabro"
    path.write_text(HELLO % '"true"')
    return path


def ran(perdure: Perdure, path: Path) -> str:
    """The id of a new run."""
    return str(perdure("run", path, "--json").succeeded().json["run_id"])


@pytest.mark.parametrize(
    "reference",
    [
        "../x",
        "a/b",
        "",
        ".",
        "..",
        "x" * 300,
        "CON",
        "new\nline",
        "--",
        "-x",
        "/etc/passwd",
        "%2e%2e",
        "01\x1b[2J",
        "*",
    ],
)
def test_a_hostile_name_is_refused_and_touches_nothing(
    perdure: Perdure, hello: Path, state_home: Path, reference: str
) -> None:
    ran(perdure, hello)
    for verb in ("show", "rm", "rebuild", "resume"):
        got = perdure(verb, "--", reference)
        assert got.code in (2, 4)
        assert got.out == ""
        assert "Traceback" not in got.err
        assert "\x1b" not in got.err
    assert only_run(perdure)["status"] == "succeeded"


def test_a_run_is_found_by_id_beginning_folder_or_name_in_any_case(perdure: Perdure, hello: Path) -> None:
    run_id = ran(perdure, hello)
    run_dir = str(only_run(perdure)["run_dir"])
    relative = os.path.relpath(run_dir, hello.parent)

    for reference in (run_id, run_id[:12], run_id.lower(), run_dir, f"{run_dir}/", relative, "hello", "HELLO", "hell"):
        assert perdure("show", reference, "--json").succeeded().json["run_id"] == run_id


def test_a_beginning_of_several_ids_lists_them(perdure: Perdure, hello: Path) -> None:
    ids = [ran(perdure, hello) for _ in range(2)]
    got = perdure("show", ids[0][:4])

    assert got.code == 2
    assert all(run_id in got.err for run_id in ids)


def test_a_name_means_its_newest_run_whatever_the_files_times_say(
    perdure: Perdure, hello: Path, state_home: Path
) -> None:
    old, new = ran(perdure, hello), ran(perdure, hello)
    [folder] = (state_home / "runs").glob(f"*-{old}")
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (4_000_000_000, 4_000_000_000))

    assert perdure("show", "hello", "--json").json["run_id"] == new
    assert [run["run_id"] for run in perdure("ps", "-a", "--json").json] == [new, old]


def test_a_state_that_was_moved_takes_its_runs_with_it(perdure: Perdure, tmp_path: Path, state_home: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    moved = tmp_path / "elsewhere"
    state_home.rename(moved)

    shown = perdure("--state-dir", moved, "show", "gated", "--json").succeeded().json
    assert shown["run_dir"].startswith(str(moved))
    assert shown["has_files"]
    perdure("--state-dir", moved, "answer", "gated", "Y").succeeded()
    perdure("--state-dir", moved, "resume", "gated").succeeded()
    assert not state_home.exists()
    conclusion = Path(shown["run_dir"], "conclusion.json")
    assert json.loads(conclusion.read_text())["status"] == "succeeded"


def test_a_worktree_moves_with_the_state(perdure: Perdure, tmp_path: Path, repository: Path, state_home: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", tmp_path / "gated.fabro", cwd=repository).code == 4
    moved = tmp_path / "elsewhere"
    state_home.rename(moved)
    perdure("--state-dir", moved, "answer", "gated", "Y").succeeded()
    perdure("--state-dir", moved, "resume", "gated").succeeded()

    assert "+after" in perdure("--state-dir", moved, "diff", "gated").succeeded().out
    assert not state_home.exists()


def test_a_project_that_was_moved_is_never_left_for_another_folder(perdure: Perdure, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro", cwd=project).code == 4
    moved = tmp_path / "moved"
    project.rename(moved)
    assert perdure("show", "gated").succeeded()
    perdure("answer", "gated", "Y").succeeded()

    got = perdure("resume", "gated", cwd=moved)
    assert got.code == 2
    assert str(project) in got.err
    assert "--cwd" in got.err
    assert only_run(perdure)["status"] == "waiting"
    perdure("resume", "gated", "--cwd", ".", cwd=moved).succeeded()
    assert (moved / "count").read_text().split() == ["before", "after"]


def test_a_repository_that_was_moved_is_named(perdure: Perdure, tmp_path: Path, repository: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", tmp_path / "gated.fabro", cwd=repository).code == 4
    perdure("answer", "gated", "N").succeeded()
    repository.rename(tmp_path / "moved")

    got = perdure("resume", "gated")
    assert got.code == 2
    assert str(repository) in got.err
    assert perdure("resume", "gated", "--cwd", tmp_path / "moved").code == 2
    repository.symlink_to(tmp_path / "moved")
    perdure("resume", "gated").succeeded()


def test_a_run_whose_files_are_missing_is_listed_and_says_so(perdure: Perdure, hello: Path) -> None:
    ran(perdure, hello)
    shutil.rmtree(str(only_run(perdure)["run_dir"]))

    assert "files missing" in perdure("ps", "-a").succeeded().out
    assert "perdure rebuild" in perdure("show", "hello").succeeded().out
    assert any("files are missing" in each["text"] for each in perdure("doctor", "--json").json)
    perdure("rebuild", "hello").succeeded()
    assert "missing" not in perdure("ps", "-a").succeeded().out


def test_directories_that_the_store_does_not_know_are_told_and_taken_in(
    perdure: Perdure, hello: Path, state_home: Path
) -> None:
    before = [ran(perdure, hello) for _ in range(2)]
    for path in state_home.glob("state.sqlite*"):
        path.unlink()

    assert "rebuild --store" in perdure("ps", "-a").succeeded().err
    assert not list(state_home.glob("state.sqlite*"))
    assert any("rebuild --store" in each["text"] for each in perdure("doctor", "--json").json)
    perdure("rebuild", "--store").succeeded()
    assert {run["run_id"] for run in perdure("ps", "-a", "--json").json} == set(before)
    assert perdure("ps", "-a").succeeded().err == ""


def test_a_record_that_cannot_be_read_costs_that_run_only(perdure: Perdure, hello: Path, state_home: Path) -> None:
    import apsw

    first, second = ran(perdure, hello), ran(perdure, hello)
    db = apsw.Connection(str(state_home / "state.sqlite"))
    db.execute("update runs set record = '{\"goal\": ' where run_id = ?", (first,))
    db.close()

    runs = {run["run_id"]: run for run in perdure("ps", "-a", "--json").succeeded().json}
    assert runs[first]["is_readable"] is False
    assert runs[second]["is_readable"] is True
    assert "unreadable" in perdure("ps", "-a").succeeded().out
    perdure("show", first).succeeded()


def test_text_that_is_no_unicode_is_refused_or_shown_harmless(perdure: Perdure, hello: Path) -> None:
    for arguments in (["run", hello, "--goal", "a\udcffb"], ["show", "a\udcffb"], ["run", "a\udcff.fabro"]):
        got = perdure(*arguments)
        assert "Traceback" not in got.err
        assert "unexpected" not in got.err
    goal = hello.parent / "goal.txt"
    goal.write_bytes(b"\xff\xfe\x00")
    got = perdure("run", hello, "--goal-file", goal)
    assert got.code == 2
    assert "UTF-8" in got.err


def test_a_listing_counts_the_questions_that_wait(perdure: Perdure, tmp_path: Path, hello: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    ran(perdure, hello)

    assert {run["name"]: run["questions"] for run in perdure("ps", "-a", "--json").json} == {"hello": 0, "gated": 1}
    perdure("answer", "gated", "Y").succeeded()
    assert {run["name"]: run["questions"] for run in perdure("ps", "-a", "--json").json} == {"hello": 0, "gated": 0}


def test_filters_choose_runs(perdure: Perdure, hello: Path) -> None:
    perdure("run", hello, "--label", "team=a").succeeded()
    perdure("run", hello, "--label", "team=b").succeeded()

    def found(*flags: str) -> int:
        return len(json.loads(perdure("ps", "-a", "--json", *flags).succeeded().out))

    assert found() == 2
    assert found("--label", "team=a") == 1
    assert found("--workflow", "HELLO") == found("--filter", "workflow=hello") == 2
    assert found("--workflow", "other") == 0
    assert found("--before", "2000-01-01") == 0
    assert found("--before", "2999-01-01") == 2
    assert found("--orphans") == 0
