"""Lines out of a stream of bytes, in bounded memory."""

from __future__ import annotations


class LineSplitter:
    """Cuts a stream at newlines only; other characters that end a line of text are part of a JSON string.

    A line of more than `limit` bytes is left out, and counted in `left_out`.
    """

    def __init__(self, limit: int) -> None:
        self.left_out = 0
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole now, without their newlines."""
        *ends, rest = piece.split(b"\n")
        lines = []
        for end in ends:
            self._hold(end)
            line = self.rest()
            if line is not None:
                lines.append(line)
        self._hold(rest)
        return lines

    def rest(self) -> bytes | None:
        """What came after the last newline, which is forgotten; None when it was too long."""
        line = b"".join(self._pieces) if self._size <= self._limit else None
        self.left_out += line is None
        self._pieces, self._size = [], 0
        return line

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._pieces = []
        elif piece:
            self._pieces.append(piece)
