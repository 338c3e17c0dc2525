"""What a folder is to Git: which repository it belongs to, and whether it is exactly the worktree it should be."""

import os

import msgspec

from perdure.git.command import GitFailed, git
from perdure.git.exclusions import is_excluded


class Repository(msgspec.Struct, frozen=True):
    """A repository as a run finds it. `base_sha` and `branch` are None without a commit or with a detached head."""

    root: str
    base_sha: str | None
    branch: str | None
    is_clean: bool


class WrongWorktree(GitFailed):
    """A folder is not the worktree that it should be, so nothing was done in it."""

    code = "wrong_worktree"


def find_repository(folder: str) -> Repository | None:
    """The repository that the folder belongs to; None when there is none, or no git."""
    if not _may_be_inside(folder):
        return None
    try:
        found = git(folder, "rev-parse", "--show-toplevel", check=False)
    except GitFailed:
        return None
    if found.code != 0:
        return None
    root = found.text
    head = git(root, "rev-parse", "--verify", "--quiet", "HEAD", check=False)
    branch = git(root, "symbolic-ref", "--short", "--quiet", "HEAD", check=False)
    return Repository(
        root=root,
        base_sha=head.text if head.code == 0 else None,
        branch=branch.text if branch.code == 0 else None,
        is_clean=not changed_files(root),
    )


def find_root(folder: str) -> str | None:
    """The top of the repository that the folder belongs to, of a linked worktree that of its main one; None when there is none."""
    if not _may_be_inside(folder):
        return None
    try:
        found = git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir", check=False)
    except GitFailed:
        return None
    if found.code != 0:
        return None
    return os.path.dirname(found.text) if os.path.basename(found.text) == ".git" else found.text


def _may_be_inside(folder: str) -> bool:
    """Whether any folder above has a `.git`: to look is cheaper than to call git."""
    folder = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


def changed_files(root: str) -> list[str]:
    """Files that differ from the last commit, untracked ones too; caches and installed packages do not count."""
    text = git(root, "status", "--porcelain", "-z", "--untracked-files=all").stdout.decode("utf-8", "surrogateescape")
    entries = [entry for entry in text.split("\0") if len(entry) > 3]
    return [entry[3:] for entry in entries if not (entry.startswith("??") and is_excluded(entry[3:]))]


def check_worktree(path: str) -> None:
    """Raises `WrongWorktree` unless the folder is the top of a worktree of its own.

    Git asks the outer repository when a folder's own `.git` is gone; work done then would land in the wrong place."""
    if not os.path.isdir(path):
        raise WrongWorktree(f"The worktree {path} is not there.", hint="Resume makes it again from the run's branch.")
    found = git(path, "rev-parse", "--show-toplevel", check=False)
    if found.code != 0 or os.path.realpath(found.text) != os.path.realpath(path):
        raise WrongWorktree(
            f"{path} is no worktree of its own (git answers for {found.text or 'nothing'}). Nothing was changed.",
            hint="Move the folder away and resume; it is made again from the run's branch.",
        )
