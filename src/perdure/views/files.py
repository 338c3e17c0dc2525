"""The files of one directory, written whole: the edge between what a log says and the disk.

Files are replaced, never changed in place, and without asking the disk to keep them: they are made again from the log. What the
log refers to and the disk has lost costs that content only, and the file says so.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from perdure.base import failpoint
from perdure.base.errors import NotFound, Refused
from perdure.base.jsonvalue import JSON, decode
from perdure.disk.atomic import explained, private_folder, replace, write_new
from perdure.kernel.large import MARK

if TYPE_CHECKING:
    from perdure.disk.blobs import Blobs

_LINK_FROM = 1024 * 1024


class Files:
    """Writes the files of one directory; `enabled` is off while old events are folded silently,
    `hidden` on while nobody can see the directory. Names are relative, with `/`."""

    def __init__(self, run_dir: str, blobs: Blobs) -> None:
        self.run_dir = run_dir
        self.blobs = blobs
        self.enabled = True
        self.hidden = False
        self._folders: set[str] = set()

    def write(self, name: str, content: bytes) -> None:
        """The file has this content."""
        if not self.enabled:
            return
        if self.hidden:
            write_new(self._ready(name), content)
        else:
            replace(self._ready(name), content, durable=False)

    def write_json(self, name: str, value: object, *, keep_same: bool = False) -> None:
        """The file has this value, indented. With `keep_same` a file that has it already keeps its time."""
        if not self.enabled:
            return
        content = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
        if not keep_same or self.read(name) != content:
            self.write(name, content)

    def write_text(self, name: str, value: JSON) -> None:
        """The file has this text, or the content of the blob that the value stands for."""
        if not self.enabled:
            return
        if isinstance(value, dict) and MARK in value:
            self._write_blob(name, str(value[MARK]))
        else:
            self.write(name, b"" if value is None else str(value).encode("utf-8", "replace"))

    def remove(self, name: str) -> None:
        """The file is not there."""
        if self.enabled:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(f"{self.run_dir}/{name}")

    def read(self, name: str) -> bytes | None:
        """What the file has; None when there is none."""
        try:
            with open(f"{self.run_dir}/{name}", "rb") as file:
                return file.read()
        except OSError:
            return None

    def append(self, name: str, lines: bytes) -> None:
        """The file ends with these lines. Unlike a log of records it is not healed here: it is made again when it differs."""
        path = self._ready(name)
        try:
            failpoint.before_write("views.append")
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            try:
                rest = memoryview(lines)
                while rest:
                    rest = rest[os.write(handle, rest) :]
            finally:
                os.close(handle)
        except OSError as error:
            raise explained(error, path) from error
        failpoint.after_write("views.append")

    def resolved(self, value: JSON) -> JSON:
        """The value itself, read from its blob when it lies in one; None when that content is lost."""
        if not isinstance(value, dict) or MARK not in value:
            return value
        try:
            content = self.blobs.read(str(value[MARK]))
            return content.decode("utf-8", "replace") if value.get("form") == "text" else decode(content)
        except (NotFound, Refused, ValueError, RecursionError):
            return None

    def show(self, run_dir: str) -> None:
        """The directory has its final name now."""
        self.run_dir, self.hidden = run_dir, False
        self._folders.clear()

    def _ready(self, name: str) -> str:
        path = f"{self.run_dir}/{name}"
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            private_folder(folder)
            self._folders.add(folder)
        return path

    def _write_blob(self, name: str, digest: str) -> None:
        """A large content shares the blob's disk space; a small one is a copy, so that an edit cannot reach the blob."""
        try:
            source = self.blobs.path(digest)
            size = os.path.getsize(source)
        except (Refused, FileNotFoundError):
            self.write(
                name, f"[The content of this file, blob {digest[:64]}, is missing.]\n".encode("utf-8", "replace")
            )
            return
        path = self._ready(name)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            failpoint.before_write("views.blob")
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            if size <= _LINK_FROM or not _linked(source, temporary):
                _copy(source, temporary)
            os.rename(temporary, path)
            # A rename of one link of a file over another link of it does nothing, and leaves both.
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        except OSError as error:
            raise explained(error, path) from error
        failpoint.after_write("views.blob")


def _linked(source: str, target: str) -> bool:
    """Whether the file has a second name now; another disk, or a file system without links, has none."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def _copy(source: str, target: str) -> None:
    from shutil import copyfile

    copyfile(source, target)
    os.chmod(target, 0o600)
