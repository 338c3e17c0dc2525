"""Patterns of files: `*` and `?` inside one folder, `[…]`, and `**` for any number of folders. Names use `/`.

A leading dot is matched only by a dot, as shells do, and nothing matches a name inside `.git`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

_VISIBLE = r"(?!\.)"


def problem(pattern: str) -> str | None:
    """Why a pattern cannot name files of a folder; None when it can."""
    if not pattern.strip():
        return "it is empty"
    if pattern.startswith("/") or ".." in pattern.split("/"):
        return "it leads out of the working folder"
    return None


def matches(patterns: Sequence[str], name: str) -> bool:
    """Whether one of the patterns names this file."""
    if name == ".git" or name.startswith(".git/") or "/.git/" in name:
        return False
    return any(_compiled(pattern).fullmatch(name) for pattern in patterns if problem(pattern) is None)


def files(root: str, pattern: str) -> Iterator[str]:
    """The files below a folder that the pattern names, looked for only where it can find some. Links to folders are not followed."""
    if problem(pattern) is not None:
        return
    top, depth = _plain_part(pattern)
    start = os.path.join(root, top)
    if os.path.realpath(start) != os.path.join(os.path.realpath(root), top).rstrip(os.sep):
        return
    for folder, folders, names in os.walk(start):
        relative = os.path.relpath(folder, root)
        below = 0 if folder == start else os.path.relpath(folder, start).count(os.sep) + 1
        if depth is not None and below >= depth:
            folders.clear()
        folders[:] = [each for each in folders if each != ".git"]
        for name in names:
            found = name if relative == "." else f"{relative}/{name}"
            if matches([pattern], found):
                yield found


def _plain_part(pattern: str) -> tuple[str, int | None]:
    """The deepest folder that all names of the pattern lie in ("" is the top), and how many folders below it the deepest name
    lies; None for any number."""
    parts = _parts(pattern)
    plain = list(takewhile(lambda part: not any(sign in part for sign in "*?["), parts[:-1]))
    rest = parts[len(plain) :]
    return "/".join(plain), None if "**" in rest else len(rest) - 1


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.endswith("/"):
        parts.append("**")
    return parts or ["**"]


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    import re

    *folders, last = _parts(pattern)
    text = ""
    for part in folders:
        text += f"(?:{_VISIBLE}[^/]+/)*" if part == "**" else _part(part) + "/"
    text += f"(?:{_VISIBLE}[^/]+/)*{_VISIBLE}[^/]+" if last == "**" else _part(last)
    return re.compile(text, re.DOTALL)


def _part(part: str) -> str:
    """One folder's or file's name as a regular expression."""
    import re

    text = _VISIBLE if part[0] in "*?[" else ""
    at = 0
    while at < len(part):
        sign = part[at]
        at += 1
        if sign == "*":
            while part[at : at + 1] == "*":
                at += 1
            text += "[^/]*"
        elif sign == "?":
            text += "[^/]"
        elif sign == "[" and (end := _set_end(part, at)) > 0:
            inside = part[at:end]
            negated = inside.startswith("!")
            chosen = re.escape(inside[negated:]).replace(r"\-", "-")
            text += f"(?!/)[{'^' if negated else ''}{chosen}]"
            at = end + 1
        else:
            text += re.escape(sign)
    return text


def _set_end(part: str, at: int) -> int:
    """Where the set of signs ends whose first sign is at `at`; -1 when it is none. A `]` that stands first is one of them."""
    first = at + 1 if part[at : at + 1] == "!" else at
    return part.find("]", first + 1)
