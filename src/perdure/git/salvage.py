"""What a dead attempt left in a worktree: kept as a commit on a ref of its own, before the tree is reset."""

import os

from perdure.base import failpoint
from perdure.git.checkpoint import AUTHOR, EMAIL
from perdure.git.command import git
from perdure.git.repository import changed_files, check_worktree


def salvage(worktree: str, run_id: str, label: str) -> str | None:
    """Keep uncommitted work, untracked files too, at `refs/perdure/salvage/<run>/<label>`; the commit's SHA.

    None when there is nothing to keep. The worktree is not changed."""
    check_worktree(worktree)
    if not changed_files(worktree):
        return None
    identity = {
        "GIT_AUTHOR_NAME": AUTHOR, "GIT_AUTHOR_EMAIL": EMAIL, "GIT_COMMITTER_NAME": AUTHOR, "GIT_COMMITTER_EMAIL": EMAIL,
    }  # fmt: skip
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git(worktree, "read-tree", "HEAD", env=index)
        git(worktree, "add", "--all", "--", ".", env=index)
        tree = git(worktree, "write-tree", env=index).text
    message = f"perdure({run_id}): what {label} left when it was interrupted\n"
    sha = git(worktree, "commit-tree", tree, "-p", "HEAD", input=message.encode(), env=identity).text
    failpoint.before_write("git.salvage")
    git(worktree, "update-ref", f"refs/perdure/salvage/{run_id}/{label}", sha)
    failpoint.after_write("git.salvage")
    return sha


def reset(worktree: str) -> None:
    """The worktree is as its last commit; ignored files stay."""
    check_worktree(worktree)
    failpoint.before_write("git.reset")
    git(worktree, "reset", "--hard", "--quiet", "HEAD")
    git(worktree, "clean", "-fdq")
    failpoint.after_write("git.reset")
