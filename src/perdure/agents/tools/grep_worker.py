"""The process that searches lines: an order on its standard input, the lines on its standard output, both JSON.

A signal ends it when its time is over, also in the middle of a pattern that never ends, and when whoever started it has died.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.disk import globs

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 20
_LINES = 500
_LINE_LENGTH = 500
_FILE = 5 * 1024 * 1024
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def main() -> None:
    """Search as the order says."""
    if hasattr(signal, "alarm"):
        signal.alarm(LIMIT_S + 2)
    order = msgspec.json.decode(sys.stdin.buffer.read())
    lines, why = grep(order, time.monotonic() + LIMIT_S)
    sys.stdout.buffer.write(msgspec.json.encode({"lines": lines, "why": why}))


def grep(order: dict[str, Any], deadline: float) -> tuple[list[str], str]:
    """The lines found, and what is to be said when these are not all."""
    pattern = re.compile(order["pattern"], order["flags"])
    lines: list[str] = []
    for path in _files(order["path"], order["glob"], order["hidden"]):
        shown = os.path.relpath(path, order["base"]).encode("utf-8", "replace").decode()
        for number, line in enumerate(_lines_of(path), 1):
            if pattern.search(line):
                lines.append(f"{shown}:{number}:{line[:_LINE_LENGTH]}")
            if len(lines) >= _LINES:
                return lines, f"\n[only the first {_LINES} lines; narrow the search]"
        if time.monotonic() > deadline:
            return lines, f"\n[stopped after {LIMIT_S} s at {shown}; narrow the search]"
    return lines, ""


def _files(top: str, names: str, hidden: list[str]) -> Iterator[str]:
    if not os.path.isdir(top):
        yield top
        return
    for name in sorted(globs.files(top, names)):
        path = os.path.join(top, name)
        # A link could lead out of the root.
        if not os.path.islink(path) and not any(path.startswith(each + os.sep) for each in hidden):
            yield path


def _lines_of(path: str) -> list[str]:
    """The lines of a text file; none of what is binary, large or not readable."""
    try:
        handle = os.open(path, _READ)
    except OSError:
        return []
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE:
            return []
        content = file.read()
    if b"\0" in content[:8192]:
        return []
    return content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
