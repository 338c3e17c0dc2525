"""Git: commits are made once, work is kept before it is reset, and nothing is done in the wrong place."""

import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.git import diff, merge, metadata, salvage, worktree
from perdure.git import repository as repositories
from perdure.git.checkpoint import Checkpoint, commit_checkpoint

AT = 1_700_000_000_000


def sh(command: str, cwd: Path) -> str:
    return subprocess.run(command, shell=True, cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """The worktree of run R1."""
    path = tmp_path / "worktree"
    base = sh("git rev-parse HEAD", repository).strip()
    worktree.add_worktree(str(repository), str(path), worktree.run_branch("R1"), base)
    return path


def test_a_checkpoint_is_one_commit_however_often_it_is_asked_for(tree: Path) -> None:
    (tree / "new").write_text("x")
    made = Checkpoint("R1", "plan", "succeeded", 1, AT, "abc")
    first = commit_checkpoint(str(tree), made)

    assert commit_checkpoint(str(tree), made) == first
    message = sh("git log -1 --format=%B%an%ae", tree)
    assert message.startswith("perdure(R1): plan (succeeded)\n")
    for trailer in ("Perdure-Run: R1", "Perdure-Completed: 1", "Perdure-Checkpoint: abc", "perdureperdure@local"):
        assert trailer in message
    assert commit_checkpoint(str(tree), Checkpoint("R1", "next", "succeeded", 2, AT)) != first


def test_a_checkpoint_leaves_installed_packages_and_excluded_files_out(tree: Path) -> None:
    for name in ("node_modules/a/x.js", ".venv/lib/y.py", "deep/__pycache__/z.pyc", "kept.txt", "secret/s.pem"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("x")
    commit_checkpoint(str(tree), Checkpoint("R1", "n", "succeeded", 1, AT), ["**/*.pem"])

    assert sh("git show --name-only --format=", tree).split() == ["kept.txt"]


def test_hooks_and_signing_of_the_person_do_not_run(tree: Path, repository: Path) -> None:
    hook = repository / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    sh("git config commit.gpgSign true", repository)
    commit_checkpoint(str(tree), Checkpoint("R1", "n", "succeeded", 1, AT))


def test_a_worktree_that_is_gone_is_made_again_from_its_branch(tree: Path, repository: Path) -> None:
    (tree / "work").write_text("done")
    sha = commit_checkpoint(str(tree), Checkpoint("R1", "n", "succeeded", 1, AT))
    shutil.rmtree(tree)
    worktree.add_worktree(str(repository), str(tree), worktree.run_branch("R1"), "HEAD")

    assert (tree / "work").read_text() == "done"
    assert sh("git rev-parse HEAD", tree).strip() == sha


def test_nothing_is_done_in_a_folder_that_is_no_worktree_of_its_own(tree: Path, tmp_path: Path) -> None:
    inside = tree / "folder"
    inside.mkdir()
    before = sh("git status --porcelain; git rev-parse HEAD", tree)
    for path in (inside, tmp_path / "nowhere"):
        with pytest.raises(repositories.WrongWorktree):
            repositories.check_worktree(str(path))
        with pytest.raises(repositories.WrongWorktree):
            salvage.reset(str(path))
    assert sh("git status --porcelain; git rev-parse HEAD", tree) == before


@pytest.mark.parametrize("change", ["untracked", "modified", "broken"])
def test_a_worktree_with_work_in_it_is_never_removed(tree: Path, repository: Path, change: str) -> None:
    if change == "untracked":
        (tree / "mine").write_text("x")
    elif change == "modified":
        (tree / "README").write_text("x")
    else:
        (tree / ".git").unlink()
    assert not worktree.remove_worktree(str(repository), str(tree))
    assert tree.exists()


def test_what_a_dead_attempt_left_is_kept_before_the_tree_is_reset(tree: Path) -> None:
    (tree / "README").write_text("half")
    (tree / "untracked").write_bytes(bytes(range(256)))
    sha = salvage.salvage(str(tree), "R1", "plan")
    assert sha is not None
    salvage.reset(str(tree))

    assert repositories.changed_files(str(tree)) == []
    kept = subprocess.run(["git", "show", f"{sha}:untracked"], cwd=tree, capture_output=True, check=True).stdout
    assert kept == bytes(range(256))
    assert sh("git for-each-ref refs/perdure/salvage", tree).strip().endswith("refs/perdure/salvage/R1/plan")
    assert salvage.salvage(str(tree), "R1", "plan-2") is None


def test_the_metadata_branch_needs_no_working_tree_and_gets_each_commit_once(repository: Path) -> None:
    files = {"run.json": b"{}", "nodes/a b/prompt.md": "é".encode(), "too-large": b"x" * (metadata.MAX_FILE + 1)}
    first = metadata.commit_metadata(str(repository), "perdure/meta/R1", "one", files, AT)
    assert metadata.commit_metadata(str(repository), "perdure/meta/R1", "one", files, AT) == first
    second = metadata.commit_metadata(str(repository), "perdure/meta/R1", "two", {"run.json": b"{2}"}, AT)

    assert sh(f"git rev-list --count {second}", repository).strip() == "2"
    names = sh(f"git -c core.quotePath=false ls-tree -r --name-only {second}", repository).split("\n")
    assert names[:2] == ["nodes/a b/prompt.md", "run.json"]
    assert sh("git status --porcelain", repository) == ""


def _branch(repository: Path, tree: Path, name: str, commands: str) -> str:
    path = tree.parent / name
    base = sh("git rev-parse HEAD", tree).strip()
    worktree.add_worktree(str(repository), str(path), worktree.parallel_branch("R1", "fork", 1, name), base)
    sh(commands, path)
    return commit_checkpoint(str(path), Checkpoint("R1", name, "succeeded", 1, AT))


def test_a_deletion_and_an_edit_in_two_branches_are_both_kept(tree: Path, repository: Path) -> None:
    sh("echo f > f; echo g > g", tree)
    commit_checkpoint(str(tree), Checkpoint("R1", "begin", "succeeded", 1, AT))
    heads = [_branch(repository, tree, "a", "rm f"), _branch(repository, tree, "b", "echo more >> g")]
    result = merge.merge_heads(str(tree), heads, "join", AT)

    assert result.conflicts == []
    assert not (tree / "f").exists()
    assert (tree / "g").read_text() == "g\nmore\n"
    assert merge.merge_heads(str(tree), heads, "join", AT).sha == result.sha


def test_a_conflict_is_told_and_nothing_is_picked(tree: Path, repository: Path) -> None:
    heads = [_branch(repository, tree, "a", "echo a > README"), _branch(repository, tree, "b", "echo b > README")]
    before = sh("git rev-parse HEAD", tree)
    result = merge.merge_heads(str(tree), heads, "join", AT)

    assert (result.sha, result.conflicts) == (None, ["README"])
    assert sh("git rev-parse HEAD", tree) == before
    assert repositories.changed_files(str(tree)) == []


def test_differences_are_those_of_git(tree: Path) -> None:
    base = sh("git rev-parse HEAD", tree).strip()
    (tree / "README").write_text("changed\n")
    sha = commit_checkpoint(str(tree), Checkpoint("R1", "n", "succeeded", 1, AT))

    assert b"+changed" in diff.diff(str(tree), base, sha)
    assert diff.diff_of(str(tree), sha) == diff.diff(str(tree), base, sha)
    assert "1 file changed" in diff.stat(str(tree), base, sha, short=True)


def test_a_folder_outside_of_git_is_none(tmp_path: Path) -> None:
    assert repositories.find_repository(str(tmp_path)) is None


def test_a_worktree_with_nothing_but_caches_in_it_is_removed(tree: Path, repository: Path) -> None:
    (tree / "pkg/__pycache__").mkdir(parents=True)
    (tree / "pkg/__pycache__/x.cpython-311.pyc").write_bytes(b"x")
    assert worktree.remove_worktree(str(repository), str(tree))
    assert not tree.exists()


def test_a_tracked_file_is_committed_wherever_it_lies(tree: Path) -> None:
    (tree / "build").mkdir()
    (tree / "build/tracked.txt").write_text("old")
    sh("git add -f build/tracked.txt; git commit -qm track", tree)
    (tree / "build/tracked.txt").write_text("new")
    (tree / "build/untracked.txt").write_text("x")
    commit_checkpoint(str(tree), Checkpoint("R1", "n", "succeeded", 1, AT))
    assert sh("git show --name-only --format=", tree).split() == ["build/tracked.txt"]


def test_branches_of_parallel_work_go_when_they_are_merged_and_stay_when_they_are_not(
    tree: Path, repository: Path
) -> None:
    head = _branch(repository, tree, "merged", "echo m > m")
    _branch(repository, tree, "lost", "echo l > l")
    into = merge.merge_heads(str(tree), [head], "join", AT).sha
    assert into is not None
    for name in ("merged", "lost"):
        assert worktree.remove_worktree(str(repository), str(tree.parent / name))
    kept = worktree.remove_merged_branches(str(repository), "R1", into)

    assert kept == [worktree.parallel_branch("R1", "fork", 1, "lost")]
    assert not worktree.branch_exists(str(repository), worktree.parallel_branch("R1", "fork", 1, "merged"))
    assert worktree.branch_exists(str(repository), kept[0])


def test_a_branch_that_a_worktree_stands_on_stays(tree: Path, repository: Path) -> None:
    head = _branch(repository, tree, "here", "true")
    merge.merge_heads(str(tree), [head], "join", AT)

    assert worktree.remove_merged_branches(str(repository), "R1", head) == [
        worktree.parallel_branch("R1", "fork", 1, "here")
    ]
