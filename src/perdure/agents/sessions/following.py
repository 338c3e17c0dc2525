"""A session's file as it grows. What is not yet a whole line waits; a file that was replaced, cut or removed is read anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from perdure.agents.sessions.reader import Entry, Problem, read_events

Reset = Literal["replaced", "removed"]


class Following:
    """Where a reader stands in one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._line = 1

    def poll(self) -> Iterator[Entry | Problem | Reset]:
        """What has come since the last look. `replaced` and `removed` say that all that was read before is void.

        Raises `UnreadableSession` and `UnsafePath`."""
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            if self._file is not None:
                self._restart(None)
                yield "removed"
            return
        file = (found.st_dev, found.st_ino)
        if self._file is not None and (file != self._file or found.st_size < self._offset or not self._is_at_end()):
            self._restart(file)
            yield "replaced"
        self._file = file
        if found.st_size == self._offset:
            return
        with suppress(FileNotFoundError):  # removed since; the next look says so
            yield from self._read()

    def _read(self) -> Iterator[Entry | Problem]:
        for each in read_events(self.path, self._offset, line=self._line):
            if isinstance(each, Problem) and each.is_open:
                return
            self._offset = each.end
            self._line = each.line + 1
            yield each

    def _restart(self, file: tuple[int, int] | None) -> None:
        self._file, self._offset, self._line = file, 0, 1

    def _is_at_end(self) -> bool:
        """Whether a record ends where this reader stands, as it did: in another content it hardly would."""
        if self._offset == 0:
            return True
        with open(self.path, "rb") as file:
            file.seek(self._offset - 1)
            return file.read(1) in (b"\n", b"}")
