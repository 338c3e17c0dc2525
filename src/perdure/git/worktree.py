"""Worktrees: where a run works, so that the person's own tree stays as it is. Uncommitted work is never removed."""

import os

from perdure.base import failpoint
from perdure.git.command import GitFailed, git
from perdure.git.repository import changed_files, check_worktree


def run_branch(run_id: str) -> str:
    """The branch that holds a run's commits."""
    return f"perdure/run/{run_id}"


def meta_branch(run_id: str) -> str:
    """The branch that holds a run's records."""
    return f"perdure/meta/{run_id}"


def parallel_branch(run_id: str, node: str, visit: int, name: str) -> str:
    """The branch of one branch of a parallel node."""
    return f"perdure/run/parallel/{run_id}/{node}/pass{visit}/{name}"


def remove_merged_branches(root: str, run_id: str, into: str) -> list[str]:
    """Remove the branches of a run's parallel work that the commit `into` holds; what stays: work that was not merged, and what a
    worktree stands on. A branch that moved meanwhile is not touched."""
    shown = git(root, "for-each-ref", "--format=%(objectname) %(refname) %(worktreepath)", _parallel_refs(run_id)).text
    kept = []
    for line in shown.splitlines():
        sha, ref, worktree = line.split(" ", 2)
        if worktree or git(root, "merge-base", "--is-ancestor", sha, into, check=False).code != 0:
            kept.append(ref.removeprefix("refs/heads/"))
            continue
        failpoint.before_write("git.branch_remove")
        git(root, "update-ref", "-d", ref, sha)
        failpoint.after_write("git.branch_remove")
    return kept


def _parallel_refs(run_id: str) -> str:
    return f"refs/heads/perdure/run/parallel/{run_id}/"


def add_worktree(root: str, path: str, branch: str, base_sha: str) -> None:
    """A worktree at `path` on `branch`, which begins at `base_sha` when it is new.

    A worktree that is there already is checked and kept; one whose folder is gone is made again from its branch."""
    if os.path.isdir(path) and os.listdir(path):
        check_worktree(path)
        return
    exists = git(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False).code == 0
    failpoint.before_write("git.worktree")
    git(root, "worktree", "prune")
    if exists:
        git(root, "worktree", "add", "--force", path, branch)
    else:
        git(root, "worktree", "add", "--force", "-b", branch, path, base_sha)
    failpoint.after_write("git.worktree")


def remove_worktree(root: str, path: str) -> bool:
    """Remove a worktree whose work is all committed. False, and it stays, when it is not or that could not be checked."""
    if not os.path.isdir(path):
        return True
    try:
        check_worktree(path)
        if changed_files(path):
            return False
        failpoint.before_write("git.worktree_remove")
        git(root, "worktree", "remove", "--force", path)
        failpoint.after_write("git.worktree_remove")
    except GitFailed:
        return False
    return True


def branch_exists(root: str, branch: str) -> bool:
    """Whether there is a branch of that name."""
    return git(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False).code == 0


def create_branch(root: str, branch: str, sha: str) -> None:
    """A new branch at a commit; one that is there already at that commit is fine."""
    failpoint.before_write("git.branch")
    git(root, "update-ref", f"refs/heads/{branch}", sha)
    failpoint.after_write("git.branch")


def list_worktrees(root: str) -> list[str]:
    """The paths of all worktrees of a repository."""
    lines = git(root, "worktree", "list", "--porcelain").text.splitlines()
    return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]
