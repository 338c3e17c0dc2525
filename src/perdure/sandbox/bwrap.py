"""Confinement with bubblewrap: a command sees the whole disk read-only, and writes only inside its worktree.

What it also gets: a /tmp of its own, /dev and /proc, and of a linked worktree's repository what `git add` and `git commit` write.
What it does not: the network (unless allowed), the folders of secrets, the state home, hooks and settings of Git. It ends with
whoever started it. It protects from mistakes of an agent; a hole in the kernel is a hole in it.
"""

from __future__ import annotations

import os

import msgspec

from perdure.base.errors import EnvironmentFault
from perdure.sandbox.command import find_program

_TMP = "/tmp"  # noqa: S108 - a new one inside
# Folders and files of the home that hold keys.
_SECRETS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".config/gh", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc",
    ".git-credentials", ".config/git/credentials", ".password-store", ".local/share/keyrings", ".claude", ".codex",
)  # fmt: skip
# Where services of the machine listen that would do things outside for whoever asks.
_SOCKETS = ("/run/user", "/run/docker.sock", "/run/containerd", "/run/podman", "/run/dbus", "/run/libvirt")
# What of a linked worktree's repository a commit writes.
_GIT_WRITTEN = ("objects", "refs", "logs")
# What of a worktree's own Git folder says which repository it is: with it an agent could have Git run programs outside.
_GIT_FIXED = ("commondir", "gitdir", "config", "config.worktree")


class Confinement(msgspec.Struct, frozen=True):
    """Where a command may write (`root`), where it begins, what is hidden from it, and whether it has the network."""

    root: str
    cwd: str
    hidden: tuple[str, ...] = ()
    allow_network: bool = False


class SandboxMissing(EnvironmentFault):
    """The confinement that was asked for cannot be had here; nothing was run without it."""

    code = "sandbox_missing"


def find_bwrap(path: str | None) -> str:
    """Where bubblewrap is. Raises `SandboxMissing`."""
    program = find_program("bwrap", path) or find_program("bwrap", os.defpath)
    if program is None:
        raise SandboxMissing(
            'There is no program bwrap, which sandbox = "bwrap" needs.',
            hint='Install the package bubblewrap, or set sandbox = "none".',
        )
    return program


def confine(argv: list[str], confinement: Confinement, path: str | None) -> list[str]:
    """The command inside the confinement. Raises `SandboxMissing` when there is no bubblewrap."""
    program = find_bwrap(path)
    root = os.path.realpath(confinement.root)
    words = [program, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
    words += [] if confinement.allow_network else ["--unshare-net"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--tmpfs", _TMP, "--setenv", "TMPDIR", _TMP]
    hidden = _hidden(confinement)
    inside = [each for each in hidden if each.startswith(root.rstrip(os.sep) + os.sep)]
    words += [word for each in hidden if each not in inside for word in _cover(each)]
    words += ["--bind", root, root]
    words += _git_binds(root)
    words += [word for each in inside for word in _cover(each)]
    return [*words, "--chdir", os.path.realpath(confinement.cwd), "--", *argv]


def _cover(path: str) -> list[str]:
    """An empty folder, or an empty file, in the place of what is there."""
    return ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", os.devnull, path]


def _hidden(confinement: Confinement) -> list[str]:
    home = os.path.expanduser("~")
    named = [*confinement.hidden, *(os.path.join(home, each) for each in _SECRETS), *_SOCKETS]
    return [os.path.realpath(each) for each in named if os.path.exists(each)]


def _git_binds(root: str) -> list[str]:
    """What Git needs: of a linked worktree its own folder and the repository's objects and branches, all else read-only."""
    marker = os.path.join(root, ".git")
    if os.path.isdir(marker):
        return ["--ro-bind", marker, marker]
    own = _git_folder(marker)
    if own is None:
        return []
    common = os.path.dirname(os.path.dirname(own))
    # Shown again, read-only, when the repository lies in something that is hidden.
    words = ["--ro-bind", marker, marker, "--ro-bind", common, common]
    for name in _GIT_WRITTEN:
        folder = os.path.join(common, name)
        words += ["--bind", folder, folder] if os.path.isdir(folder) else []
    if _has_worktree_config(common):
        return words
    words += ["--bind", own, own]
    for name in _GIT_FIXED:
        file = os.path.join(own, name)
        words += ["--ro-bind", file, file] if os.path.exists(file) else []
    return words


def _git_folder(marker: str) -> str | None:
    """The Git folder of a linked worktree, which its `.git` file names and which names it in turn."""
    try:
        with open(marker, encoding="utf-8") as file:
            own = os.path.realpath(file.read(4096).removeprefix("gitdir:").strip())
        with open(os.path.join(own, "gitdir"), encoding="utf-8") as file:
            back = file.read(4096).strip()
    except (OSError, UnicodeDecodeError):
        return None
    is_linked = os.path.basename(os.path.dirname(own)) == "worktrees"
    return own if is_linked and os.path.realpath(back) == os.path.realpath(marker) else None


def _has_worktree_config(common: str) -> bool:
    """Whether Git reads settings from a worktree's own folder, which then may not be written."""
    try:
        with open(os.path.join(common, "config"), encoding="utf-8", errors="replace") as file:
            return "worktreeconfig" in file.read().lower()
    except OSError:
        return True
