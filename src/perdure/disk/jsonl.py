"""JSON Lines: a record a line, appended whole, read tolerantly.

A line that was cut by a kill stays where it is, costs itself only, and is reported; the next append begins a new line.
"""

import os
import stat
from collections.abc import Iterator

import msgspec

from perdure.base import failpoint
from perdure.base.jsonvalue import JSON, decode
from perdure.disk.atomic import UnsafePath, explained, write_all

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
MAX_LINE = 64 * 1024 * 1024
_CHUNK = 256 * 1024


class Record(msgspec.Struct, frozen=True):
    """One record: its value, its bytes, and where it stands. `line` counts from 1, `offset` is in bytes."""

    value: JSON
    raw: bytes
    line: int
    offset: int


class Damage(msgspec.Struct, frozen=True):
    """What is no record, and where. `is_torn` marks a last line without an end."""

    reason: str
    raw: bytes
    line: int
    offset: int
    is_torn: bool = False


class Appender:
    """Appends whole lines to one file, made for its owner only when it is not there."""

    __slots__ = ("_handle", "_label", "path")

    def __init__(self, path: str, *, label: str = "disk.append") -> None:
        """Raises `UnsafePath` when `path` is a link or no file, `EnvironmentFault` when it cannot be opened."""
        self.path = path
        self._label = label
        try:
            self._handle = os.open(path, _APPEND | getattr(os, "O_NONBLOCK", 0), 0o600)
        except OSError as error:
            if os.path.islink(path):
                raise UnsafePath(f"{path} is a symbolic link; it is not followed.", hint="Remove the link.") from error
            raise explained(error, path) from error
        found = os.fstat(self._handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._handle)
            raise UnsafePath(f"{path} is no regular file.", hint="Move it away.")
        if found.st_size and os.pread(self._handle, 1, found.st_size - 1) != b"\n":
            self.append(b"\n")

    def append(self, lines: bytes) -> None:
        """Add whole lines, each with its end, in one write."""
        failpoint.before_write(self._label)
        try:
            write_all(self._handle, lines)
        except OSError as error:
            raise explained(error, self.path) from error
        failpoint.after_write(self._label)

    def sync(self) -> None:
        """What was appended survives a power loss."""
        os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)


def read(path: str, offset: int = 0, *, line: int = 1) -> Iterator[Record | Damage]:
    """The records of a file from an offset (bytes), and what is damaged between them, in order.

    Memory is bounded by one line. A last line without its end counts when it is a whole record.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        for raw in _lines(file):
            yield from _records(raw, line, offset)
            offset += len(raw)
            line += 1


def _lines(file: object) -> Iterator[bytes]:
    """Lines that end with a line feed only; one that is too long comes in pieces."""
    readline = file.readline  # type: ignore[attr-defined]
    while raw := readline(MAX_LINE):
        yield raw


def _records(raw: bytes, line: int, offset: int) -> Iterator[Record | Damage]:
    text = raw.strip(b" \t\r\n")
    if not text:
        return
    try:
        yield Record(decode(text), text, line, offset)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        several = list(_joined(text, line, offset))
        if several:
            yield from several
        else:
            yield Damage(_reason(text, error), text, line, offset, is_torn=not raw.endswith(b"\n"))


def _joined(text: bytes, line: int, offset: int) -> Iterator[Record | Damage]:
    """Records that ended up on one line; nothing unless every part of the line is accounted for."""
    import json

    decoder = json.JSONDecoder()
    try:
        string = text.decode()
    except UnicodeDecodeError:
        return
    at, found = 0, []
    while at < len(string):
        try:
            _value, end = decoder.raw_decode(string, at)
            part = string[at:end].encode()
            found.append(Record(decode(part), part, line, offset + len(string[:at].encode())))
        except (ValueError, RecursionError, msgspec.DecodeError):
            if found:
                rest = string[at:].encode()
                found.append(Damage("cut off", rest, line, offset + len(string[:at].encode())))  # type: ignore[arg-type]
            break
        at = end
        while at < len(string) and string[at] in " \t\r\n":
            at += 1
    if len(found) > 1:
        yield from found


def _reason(text: bytes, error: Exception) -> str:
    if text.count(0) == len(text):
        return f"{len(text)} NUL bytes"
    if isinstance(error, (UnicodeDecodeError, RecursionError)):
        return "no valid UTF-8" if isinstance(error, UnicodeDecodeError) else "nested too deeply"
    return f"no JSON: {error}"
