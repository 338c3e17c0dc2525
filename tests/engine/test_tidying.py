"""What a run leaves behind in Git and in its directory: its work, and nothing that was only needed on the way."""

import subprocess
from pathlib import Path

from .conftest import Graphs

BRANCHES = """p [shape=component] j [shape=tripleoctagon] x [shape=parallelogram, script="echo x > x"]
    y [shape=parallelogram, script="echo y > {}"] start -> p; p -> x -> j; p -> y -> j; j -> exit"""


def branches(repository: Path) -> list[str]:
    shown = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/perdure/run"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    )
    return shown.stdout.split()


def options(repository: Path) -> dict[str, str]:
    return {"git": "worktree", "repository": str(repository), "working_directory": str(repository)}


def run_dir(graphs: Graphs) -> Path:
    return graphs.folder / "runs" / graphs.run_id


def test_a_run_whose_branches_were_merged_leaves_one_branch_and_no_empty_folder(
    graphs: Graphs, repository: Path
) -> None:
    assert graphs.run(BRANCHES.format("y"), **options(repository)).status == "succeeded"

    assert branches(repository) == [f"perdure/run/{graphs.run_id}"]
    assert not (run_dir(graphs) / "worktrees").exists()
    assert not (run_dir(graphs) / "cache").exists()


def test_work_that_could_not_be_merged_stays_on_its_branches_and_the_run_says_so(
    graphs: Graphs, repository: Path
) -> None:
    assert graphs.run(BRANCHES.format("x"), **options(repository)).status == "failed"

    assert sorted(name.rpartition("/")[2] for name in branches(repository)) == sorted([graphs.run_id, "x", "y"])
    assert "branches_kept" in {event.properties["code"] for event in graphs.events("run.notice")}


def test_a_run_without_git_leaves_no_empty_folder_either(graphs: Graphs) -> None:
    graphs.run("a [shape=parallelogram, script=true] start -> a -> exit")

    assert not (run_dir(graphs) / "cache").exists()
