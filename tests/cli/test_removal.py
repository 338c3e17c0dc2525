"""Runs go only on a person's word, whole or not at all, and never work that is not committed."""

import signal
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED, HELLO, only_run, started, until

PARENT = """digraph parent {
    start [shape=Mdiamond] exit [shape=Msquare]
    child [shape=house, stack.child_workflow="hello.fabro"]
    start -> child -> exit
}"""


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """A workflow that ends at once."""
    path = tmp_path / "hello.fabro"
    path.write_text(HELLO % '"true"')
    return path


def directories(state_home: Path) -> list[str]:
    """All that is in the folder of run directories."""
    return sorted(path.name for path in (state_home / "runs").iterdir())


def test_a_run_goes_with_its_child_runs_and_its_files(
    perdure: Perdure, tmp_path: Path, hello: Path, state_home: Path
) -> None:
    (tmp_path / "parent.fabro").write_text(PARENT)
    perdure("run", "parent.fabro").succeeded()
    assert len(perdure("ps", "-a", "--json").json) == 2
    perdure("rm", "parent").succeeded()

    assert perdure("ps", "-a", "--json").json == []
    assert directories(state_home) == []


def test_removing_goes_on_past_a_run_that_must_stay(perdure: Perdure, tmp_path: Path, hello: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    perdure("run", hello).succeeded()
    ran = perdure("rm", "nothing", "gated", "hello")

    assert ran.code == 4
    assert "not settled" in ran.err
    assert [run["name"] for run in perdure("ps", "-a", "--json").json] == ["gated"]
    perdure("rm", "-f", "gated").succeeded()
    assert perdure("ps", "-a", "--json").json == []


@pytest.mark.crash
def test_a_run_that_is_at_work_is_never_removed(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "hello.fabro").write_text(HELLO % '"touch gate; sleep 60"')
    process = started(perdure, tmp_path / "hello.fabro")
    until((tmp_path / "gate").exists)

    assert perdure("rm", "-f", "hello").code == 5
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    perdure("rm", "-f", "hello").succeeded()


@pytest.mark.crash
@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_removal_that_is_killed_leaves_the_run_or_takes_it(
    perdure: Perdure, hello: Path, state_home: Path, write: int
) -> None:
    perdure("run", hello).succeeded()
    run_id = str(only_run(perdure)["run_id"])
    killed = perdure("rm", "hello", env={"PERDURE_CRASH_AFTER": str(write)})
    assert killed.code in (-signal.SIGKILL, 0)

    # What is out of sight is taken in by nobody, and goes with the next removal.
    perdure("rebuild", "--store").succeeded()
    left = [str(run["run_id"]) for run in perdure("ps", "-a", "--json").json]
    assert left in ([], [run_id])
    if left:
        perdure("rm", run_id).succeeded()
    perdure("run", hello).succeeded()
    perdure("rm", "hello").succeeded()
    assert directories(state_home) == []


def test_work_that_is_not_committed_stays(perdure: Perdure, tmp_path: Path, hello: Path, repository: Path) -> None:
    perdure("run", hello, "--keep-worktree", cwd=repository).succeeded()
    worktree = Path(str(only_run(perdure)["run_dir"]), "worktree")
    (worktree / "notes").write_text("mine")

    ran = perdure("rm", "hello")
    assert ran.code == 2
    assert str(worktree) in ran.err
    kept = perdure("prune", "--older-than", "0m", "--yes")
    assert "not committed" in kept.err
    assert "Removed 0 runs" in kept.succeeded().out
    assert (worktree / "notes").read_text() == "mine"
    (worktree / "notes").unlink()
    perdure("rm", "hello").succeeded()
    assert not worktree.exists()


def test_prune_shows_first_and_keeps_to_its_filters(perdure: Perdure, hello: Path, state_home: Path) -> None:
    assert perdure("prune").succeeded().out.startswith("Would remove 0")
    assert not state_home.exists()
    perdure("run", hello, "--label", "team=a").succeeded()
    perdure("run", hello, "--label", "team=b").succeeded()
    assert len(perdure("prune", "--older-than", "0m", "--json").json["runs"]) == 2
    assert perdure("prune", "--older-than", "1h", "--json").json["runs"] == []
    perdure("prune", "--older-than", "0m", "--label", "team=a", "--yes").succeeded()

    [left] = perdure("ps", "-a", "--json").json
    assert left["labels"] == {"team": "b"}
