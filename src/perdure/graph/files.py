"""Files that a graph refers to: `prompt="@path.md"`, `goal="@path.md"`, imported graphs.

A path is sought next to the file that names it, then in the person's own `~/.perdure` and `~/.fabro`. `~` and `..` work. What was
read is kept with the run, so that it never reads the disk again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

Reader = Callable[[str, str], "tuple[str, str] | None"]

PERSONAL = ("~/.perdure", "~/.fabro")


class DiskFiles:
    """Reads from the disk and remembers, by the reference as it was written and the folder that it was written in."""

    def __init__(self) -> None:
        self.read: dict[str, str] = {}

    def __call__(self, reference: str, folder: str) -> tuple[str, str] | None:
        """The text and the path it came from; None when there is no such file."""
        for path in candidates(reference, folder):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            self.read[key(reference, folder)] = f"{path}\n{text}"
            return text, path
        return None


def recorded_reader(files: Mapping[str, str]) -> Reader:
    """Reads what `DiskFiles` remembered."""

    def read(reference: str, folder: str) -> tuple[str, str] | None:
        found = files.get(key(reference, folder))
        if found is None:
            return None
        path, _, text = found.partition("\n")
        return text, path

    return read


def key(reference: str, folder: str) -> str:
    """What a file is remembered by."""
    return f"{folder}|{reference}"


def candidates(reference: str, folder: str) -> list[str]:
    """Where the file may lie, in the order of looking."""
    expanded = os.path.expanduser(reference)
    if os.path.isabs(expanded):
        return [expanded]
    return [os.path.join(folder, expanded), *(os.path.join(os.path.expanduser(each), expanded) for each in PERSONAL)]
