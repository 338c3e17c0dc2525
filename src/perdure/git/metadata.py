"""The metadata branch: a run's records as commits beside its code, written without any working tree."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.base import failpoint
from perdure.git.checkpoint import AUTHOR, EMAIL
from perdure.git.command import git

MAX_FILE = 512 * 1024


def commit_metadata(root: str, branch: str, message: str, files: Mapping[str, bytes], at_ms: int) -> str:
    """Add files to the branch in one commit; its SHA. Files that are there and not named stay.

    A commit with the same message at the head is this one already, so it is made once.
    """
    ref = f"refs/heads/{branch}"
    head = git(root, "log", "-1", "--format=%H%n%s", ref, "--", check=False)
    parent = None
    if head.code == 0 and head.text:
        parent, _, subject = head.text.partition("\n")
        if subject == message:
            return parent
    stream = _fast_import(ref, message, files, at_ms, parent)
    failpoint.before_write("git.metadata")
    git(root, "fast-import", "--quiet", "--force", input=stream)
    failpoint.after_write("git.metadata")
    return git(root, "rev-parse", ref).text


def _fast_import(ref: str, message: str, files: Mapping[str, bytes], at_ms: int, parent: str | None) -> bytes:
    text = message.encode()
    who = f"{AUTHOR} <{EMAIL}> {at_ms // 1000} +0000"
    parts = [f"commit {ref}\nauthor {who}\ncommitter {who}\ndata {len(text)}\n".encode(), text, b"\n"]
    if parent:
        parts.append(f"from {parent}\n".encode())
    for name, content in sorted(files.items()):
        if len(content) <= MAX_FILE:
            quoted = name.replace("\\", "\\\\").replace('"', '\\"')
            parts += [f'M 100644 inline "{quoted}"\ndata {len(content)}\n'.encode(), content, b"\n"]
    parts.append(b"\n")
    return b"".join(parts)
