"""Checkpoints: one commit a node on the run's branch, made at most once however often it is asked for."""

from collections.abc import Sequence

import msgspec

from perdure.base import failpoint
from perdure.git.command import git
from perdure.git.exclusions import pathspecs

AUTHOR = "perdure"
EMAIL = "perdure@local"


class Checkpoint(msgspec.Struct, frozen=True):
    """What a checkpoint's commit says."""

    run_id: str
    node: str
    status: str
    completed: int
    at_ms: int
    meta_sha: str | None = None

    @property
    def message(self) -> str:
        """Subject and trailers."""
        lines = [f"perdure({self.run_id}): {self.node} ({self.status})", "", f"Perdure-Run: {self.run_id}"]
        lines.append(f"Perdure-Completed: {self.completed}")
        if self.meta_sha:
            lines.append(f"Perdure-Checkpoint: {self.meta_sha}")
        return "\n".join(lines) + "\n"


def commit_checkpoint(worktree: str, checkpoint: Checkpoint, exclude: Sequence[str] = ()) -> str:
    """Commit all of the worktree; the commit's SHA. When the head is this very checkpoint already, that one is it.

    Commits even when nothing changed. New files that a pattern excludes stay out; what is tracked is
    committed wherever it lies.
    """
    head = git(worktree, "log", "-1", "--format=%H%n%B").text
    sha, _, message = head.partition("\n")
    if (
        message.strip().split("Perdure-Checkpoint:")[0].strip()
        == checkpoint.message.split("Perdure-Checkpoint:")[0].strip()
    ):
        return sha
    failpoint.before_write("git.checkpoint")
    git(worktree, "add", "--update", "--", ".")
    git(worktree, "add", "--all", "--", ".", *pathspecs(exclude))
    when = f"{checkpoint.at_ms // 1000} +0000"
    identity = {
        "GIT_AUTHOR_NAME": AUTHOR, "GIT_AUTHOR_EMAIL": EMAIL, "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_NAME": AUTHOR, "GIT_COMMITTER_EMAIL": EMAIL, "GIT_COMMITTER_DATE": when,
    }  # fmt: skip
    git(
        worktree, "commit", "--quiet", "--allow-empty", "--no-verify", "--file=-",
        input=checkpoint.message.encode(), env=identity,
    )  # fmt: skip
    failpoint.after_write("git.checkpoint")
    return git(worktree, "rev-parse", "HEAD").text
