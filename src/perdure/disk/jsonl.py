"""JSON Lines: a record a line, appended whole, read tolerantly.

A line that was cut by a kill or a full disk stays where it is, costs itself only, and is reported; the next append begins a new
line. A reader that follows a growing file goes on at the `end` of the last record, or at the `offset` of a torn last line.
"""

import os
import stat
from collections.abc import Iterator
from typing import IO

import msgspec

from perdure.base import failpoint
from perdure.base.jsonvalue import JSON, decode, encode
from perdure.disk.atomic import UnsafePath, explained, write_all

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
MAX_LINE = 64 * 1024 * 1024
_CHUNK = 256 * 1024
_KEPT = 4096


class Record(msgspec.Struct, frozen=True):
    """One record: its value, its bytes, and where it stands. `line` counts from 1, `offset` and `end` are in bytes."""

    value: JSON
    raw: bytes
    line: int
    offset: int
    end: int


class Damage(msgspec.Struct, frozen=True):
    """What is no record, and where. `is_torn` marks a last line without an end. `raw` is the beginning of a line over
    `MAX_LINE`, and all of any other."""

    reason: str
    raw: bytes
    line: int
    offset: int
    end: int
    is_torn: bool = False


class Appender:
    """Appends whole lines to one file, made for its owner only when it is not there."""

    __slots__ = ("_handle", "_has_failed", "_is_shared", "_label", "path")

    def __init__(self, path: str, *, label: str = "disk.append", is_shared: bool = False) -> None:
        """`is_shared`: other processes append too, so what one of them left torn is looked for before each append.

        Raises `UnsafePath` when `path` is a link or no file of its own, `EnvironmentFault` when it cannot be opened."""
        self.path = path
        self._label = label
        self._has_failed = False
        self._is_shared = is_shared
        try:
            self._handle = os.open(path, _APPEND | getattr(os, "O_NONBLOCK", 0), 0o600)
        except OSError as error:
            if os.path.islink(path):
                raise UnsafePath(f"{path} is a symbolic link; it is not followed.", hint="Remove the link.") from error
            raise explained(error, path) from error
        found = os.fstat(self._handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(self._handle)
            if stat.S_ISREG(found.st_mode):
                raise UnsafePath(f"{path} has other names too (hard links).", hint="Put a copy of it in its place.")
            raise UnsafePath(f"{path} is no regular file.", hint="Move it away.")
        try:
            if self._ends_torn():
                self.append(b"\n")
        except BaseException:
            os.close(self._handle)
            raise

    def append(self, lines: bytes) -> None:
        """Add whole lines, each with its end, in one write. Raises `DiskFull` or `EnvironmentFault`; what was written of the
        lines then is a torn line, and the next append begins a new one."""
        try:
            failpoint.before_write(self._label)
            if (self._has_failed or self._is_shared) and self._ends_torn():
                lines = b"\n" + lines
            self._has_failed = True
            write_all(self._handle, lines)
        except OSError as error:
            raise explained(error, self.path) from error
        self._has_failed = False
        failpoint.after_write(self._label)

    def sync(self) -> None:
        """What was appended survives a power loss. Raises `DiskFull` or `EnvironmentFault`."""
        try:
            failpoint.before_write("disk.sync")
            os.fsync(self._handle)
        except OSError as error:
            raise explained(error, self.path) from error
        failpoint.after_write("disk.sync")

    def close(self) -> None:
        os.close(self._handle)

    def _ends_torn(self) -> bool:
        size = os.fstat(self._handle).st_size
        return size > 0 and os.pread(self._handle, 1, size - 1) != b"\n"


def read(path: str, offset: int = 0, *, line: int = 1) -> Iterator[Record | Damage]:
    """The records of a file from an offset (bytes), and what is damaged between them, in order.

    Memory is bounded by one line. A last line without its end counts when it is a whole record. Raises `UnsafePath` when the
    path is no file, OSError when it cannot be opened.
    """
    with open(path, "rb", opener=_opened) as file:
        file.seek(offset)
        while raw := file.readline(MAX_LINE):
            size = len(raw)
            if size == MAX_LINE and not raw.endswith(b"\n"):
                size += _rest_of_line(file)
                yield Damage("longer than a record may be", raw[:_KEPT], line, offset, offset + size)
            else:
                yield from _records(raw, line, offset)
            offset += size
            line += 1


def _opened(path: str, _flags: int) -> int:
    """Opened without waiting for the other end of a pipe."""
    handle = os.open(path, _READ)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnsafePath(f"{path} is no regular file.", hint="Move it away.")
    return handle


def _rest_of_line(file: IO[bytes]) -> int:
    size = 0
    while piece := file.readline(_CHUNK):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size


def _records(raw: bytes, line: int, offset: int) -> Iterator[Record | Damage]:
    text = raw.strip(b" \t\r\n")
    if not text:
        return
    end = offset + len(raw)
    is_torn = not raw.endswith(b"\n")
    try:
        value = decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        start = offset + raw.index(text[:1])
        several = _joined(text, line, start, is_torn=is_torn)
        if several:
            yield from several
        else:
            yield Damage(_reason(text, error), text, line, offset, end, is_torn)
        return
    if _repeats_a_key(text, value):
        yield Damage("a key is there twice", text, line, offset, end)
    else:
        yield Record(value, text, line, offset, end)


def _joined(text: bytes, line: int, offset: int, *, is_torn: bool) -> list[Record | Damage]:
    """Records that ended up on one line, and what follows them there; nothing when no record begins the line."""
    import json

    decoder = json.JSONDecoder()
    found: list[Record | Damage] = []
    try:
        string = text.decode()
    except UnicodeDecodeError:
        return []
    at = 0
    while at < len(string):
        try:
            _value, after = decoder.raw_decode(string, at)
            part = string[at:after].encode()
            value = decode(part)
        except (ValueError, RecursionError, msgspec.DecodeError):
            rest = string[at:].encode()
            found.append(Damage("cut off", rest, line, offset, offset + len(rest), is_torn))
            break
        while after < len(string) and string[after] in " \t\r\n":
            after += 1
        end = offset + len(string[at:after].encode())
        found.append(Record(value, part, line, offset, end))
        at, offset = after, end
    return found if len(found) > 1 else []


def _repeats_a_key(text: bytes, value: JSON) -> bool:
    """Whether an object has a key twice, of which the decoder keeps the last and says nothing."""
    # Written again it is shorter, or it is just what stands there: then no key was lost, and no second look is needed.
    if encode(value) == text:
        return False
    import json

    is_repeated = False

    def pairs(found: list[tuple[str, object]]) -> object:
        nonlocal is_repeated
        is_repeated = is_repeated or len(dict(found)) < len(found)
        return None

    try:
        json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return False
    return is_repeated


def _reason(text: bytes, error: Exception) -> str:
    if text.count(0) == len(text):
        return f"{len(text)} NUL bytes"
    if isinstance(error, (UnicodeDecodeError, RecursionError)):
        return "no valid UTF-8" if isinstance(error, UnicodeDecodeError) else "nested too deeply"
    return f"no JSON: {error}"
