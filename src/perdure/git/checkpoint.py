"""Checkpoints: one commit a node on the run's branch, made at most once however often it is asked for."""

from collections.abc import Sequence

import msgspec

from perdure.base import failpoint
from perdure.git.command import git

AUTHOR = "perdure"
EMAIL = "perdure@local"

# What no checkpoint ever holds: caches and installed packages.
EXCLUDED = (
    "node_modules", "target", "dist", "build", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".tox", ".nox", ".cache", ".gradle", ".next", ".turbo", "coverage", ".DS_Store", "*.pyc",
)  # fmt: skip


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

    Commits even when nothing changed. Only files that no pattern excludes are added; tracked ones stay tracked.
    """
    head = git(worktree, "log", "-1", "--format=%H%n%B").text
    sha, _, message = head.partition("\n")
    if (
        message.strip().split("Perdure-Checkpoint:")[0].strip()
        == checkpoint.message.split("Perdure-Checkpoint:")[0].strip()
    ):
        return sha
    patterns = [f":(exclude,glob)**/{name}/**" for name in EXCLUDED] + [
        f":(exclude,glob)**/{name}" for name in EXCLUDED
    ]
    patterns += [f":(exclude,glob){pattern}" for pattern in exclude]
    failpoint.before_write("git.checkpoint")
    git(worktree, "add", "--all", "--", ".", *patterns)
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
