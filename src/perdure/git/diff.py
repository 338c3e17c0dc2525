"""Differences: between commits, as patches and in figures."""

from perdure.git.command import git


def diff(root: str, base: str, head: str = "HEAD") -> bytes:
    """The patch from one commit to another."""
    return git(root, "diff", "--binary", base, head, "--").stdout


def diff_of(root: str, sha: str) -> bytes:
    """The patch of one commit."""
    return git(root, "diff-tree", "-p", "--binary", "--root", "--no-commit-id", sha).stdout


def stat(root: str, base: str, head: str, *, short: bool = False) -> str:
    """Which files changed, and how much."""
    return git(root, "diff", "--shortstat" if short else "--stat", base, head, "--").text


def changed_names(root: str, base: str, head: str) -> list[str]:
    """The names of the files that differ."""
    text = git(root, "diff", "--name-only", "-z", base, head, "--").stdout.decode("utf-8", "surrogateescape")
    return [name for name in text.split("\0") if name]
