"""What a project says to agents: `AGENTS.md` and `CLAUDE.md` of the folders from the repository's root down to the working folder."""

from __future__ import annotations

import os

import msgspec

NAMES = ("AGENTS.md", "CLAUDE.md")
LIMIT = 32 * 1024


class ProjectDocs(msgspec.Struct, frozen=True):
    """The text for the system prompt, "" when there is none; the files it is from; whether some of it was left out."""

    text: str
    files: tuple[str, ...] = ()
    is_cut: bool = False


def read_project_docs(root: str, cwd: str, limit: int = LIMIT) -> ProjectDocs:
    """The documents, at most so many bytes of text in all; the root's come first. A document that is a link to another, or has its
    content, is given once; one that leads out of the root is left out."""
    top, folder = os.path.realpath(root), os.path.realpath(cwd)
    if folder != top and not folder.startswith(top.rstrip(os.sep) + os.sep):
        folder = top
    parts: list[str] = []
    files: list[str] = []
    seen: set[bytes] = set()
    left = limit
    for path in _candidates(top, folder):
        content = _content(top, path)
        if content is None or content in seen:
            continue
        seen.add(content)
        name = os.path.relpath(path, top)
        if left <= 0:
            parts.append(f"[{name} left out: project documents are limited to {limit} bytes]")
            return ProjectDocs("\n\n".join(parts), tuple(files), is_cut=True)
        text = content[:left].decode("utf-8", "ignore" if len(content) > left else "replace").strip()
        files.append(name)
        parts.append(f"# {name}\n\n{text}")
        if len(content) > left:
            parts.append(f"[{name} cut: project documents are limited to {limit} bytes; read the file for the rest]")
            return ProjectDocs("\n\n".join(parts), tuple(files), is_cut=True)
        left -= len(content)
    return ProjectDocs("\n\n".join(parts), tuple(files))


def _candidates(top: str, folder: str) -> list[str]:
    inside = os.path.relpath(folder, top)
    folders = [top]
    for part in [] if inside == "." else inside.split(os.sep):
        folders.append(os.path.join(folders[-1], part))
    return [os.path.join(each, name) for each in folders for name in NAMES]


def _content(top: str, path: str) -> bytes | None:
    real = os.path.realpath(path)
    if not real.startswith(top.rstrip(os.sep) + os.sep) or not os.path.isfile(real):
        return None
    try:
        with open(real, "rb") as file:
            content = file.read(1024 * 1024)
    except OSError:
        return None
    return content if content.strip() else None
