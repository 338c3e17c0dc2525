"""Bringing branches of parallel work together: by three-way merges, so that a deletion stays a deletion."""

from collections.abc import Sequence

import msgspec

from perdure.base import failpoint
from perdure.git.checkpoint import AUTHOR, EMAIL
from perdure.git.command import GitFailed, git


class MergeResult(msgspec.Struct, frozen=True):
    """The head after the merge, or the files that two branches changed differently; then nothing was merged."""

    sha: str | None
    conflicts: list[str]


def merge_heads(worktree: str, heads: Sequence[str], message: str, at_ms: int) -> MergeResult:
    """Merge commits into the worktree's branch, in their order. On a conflict the worktree stays as it was."""
    start = git(worktree, "rev-parse", "HEAD").text
    when = f"{at_ms // 1000} +0000"
    identity = {
        "GIT_AUTHOR_NAME": AUTHOR, "GIT_AUTHOR_EMAIL": EMAIL, "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_NAME": AUTHOR, "GIT_COMMITTER_EMAIL": EMAIL, "GIT_COMMITTER_DATE": when,
    }  # fmt: skip
    for head in heads:
        if git(worktree, "merge-base", "--is-ancestor", head, "HEAD", check=False).code == 0:
            continue
        failpoint.before_write("git.merge")
        merged = git(worktree, "merge", "--no-edit", "--quiet", "-m", message, head, env=identity, check=False)
        if merged.code != 0:
            names = git(worktree, "diff", "--name-only", "--diff-filter=U", "-z").stdout.decode("utf-8", "replace")
            conflicts = [name for name in names.split("\0") if name]
            git(worktree, "merge", "--abort", check=False)
            git(worktree, "reset", "--hard", "--quiet", start)
            if not conflicts:
                raise GitFailed(f"Merging {head} into {worktree} failed: {merged.stderr}.")
            return MergeResult(None, conflicts)
        failpoint.after_write("git.merge")
    return MergeResult(git(worktree, "rev-parse", "HEAD").text, [])


def fast_forward(worktree: str, head: str) -> str:
    """The worktree's branch stands at the winner's commit, which must follow from it."""
    failpoint.before_write("git.fast_forward")
    git(worktree, "merge", "--ff-only", "--quiet", head)
    failpoint.after_write("git.fast_forward")
    return git(worktree, "rev-parse", "HEAD").text
