"""Paths that a model names: where they lead, and opening them so that they lead nowhere else.

A path is resolved through its symbolic links and must end up inside the root. It is then opened folder by folder from the root
without following any link, so that a link which is put in its way meanwhile leads to an error and not out of the root.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from perdure.agents.tools.tool import ToolFault
from perdure.base import failpoint
from perdure.disk.atomic import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.agents.tools.tool import ToolContext

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# What is read whole.
MAX_FILE = 20 * 1024 * 1024


class Place(NamedTuple):
    """A path inside the root: its real path, the same from the root, and the root's."""

    path: str
    inside: str
    root: str


class Content(NamedTuple):
    """A file's bytes, their SHA-256 and the file's permissions."""

    bytes: bytes
    digest: str
    mode: int


def locate(context: ToolContext, named: str) -> Place:
    """Where a path leads. `~` is the home, a relative path begins in the working folder. Raises `ToolFault` when it leads out of
    the root or to what is hidden."""
    if not named or "\0" in named:
        raise ToolFault(f"{named!r} is no path.")
    root = os.path.realpath(context.root)
    path = os.path.realpath(os.path.join(context.cwd, os.path.expanduser(named)))
    if path != root and not path.startswith(root.rstrip(os.sep) + os.sep):
        raise ToolFault(f"{named} leads to {path}, outside of {root}. Only files inside it can be used.")
    for folder in context.hidden:
        hidden = os.path.realpath(folder)
        if hidden.startswith(root.rstrip(os.sep) + os.sep) and (path == hidden or path.startswith(hidden + os.sep)):
            raise ToolFault(f"{named} is not for agents.")
    return Place(path, os.path.relpath(path, root), root)


def check_writable(place: Place) -> None:
    """Raises `ToolFault` for what no tool writes: Git's own files."""
    if ".git" in place.inside.split(os.sep):
        raise ToolFault(f"{place.inside} belongs to Git; use git commands instead.")


def read(place: Place, limit: int = MAX_FILE) -> Content | None:
    """The file; None when there is none. Raises `ToolFault` when it is no regular file, too large or not readable."""
    try:
        with _folder(place, make=False) as folder:
            handle = os.open(os.path.basename(place.path) or ".", _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolFault(f"{place.inside} cannot be read: {error.strerror}.") from error
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise ToolFault(f"{place.inside} is a folder; use list.")
        if not stat.S_ISREG(found.st_mode):
            raise ToolFault(f"{place.inside} is no regular file.")
        if found.st_size > limit:
            raise ToolFault(
                f"{place.inside} has {found.st_size} bytes, more than {limit} that are read; look for what you need with grep."
            )
        with open(handle, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ToolFault(f"{place.inside} cannot be read: {error.strerror}.") from error
    finally:
        os.close(handle)
    return Content(content, digest_of(content), stat.S_IMODE(found.st_mode))


def write(place: Place, content: bytes, mode: int | None, mark: str) -> None:
    """The file has this content, whole or not at all; folders on the way are made. A new file gets the usual permissions.

    `mark` names the unfinished file, so that the same call, run again after a kill, removes it. Raises `ToolFault`."""
    name = os.path.basename(place.path)
    temporary = f".{name[:100]}.{mark}.perdure-tmp"
    try:
        with _folder(place, make=True) as folder:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            failpoint.before_write("agent.file")
            handle = os.open(temporary, _NEW, 0o666, dir_fd=folder)
            try:
                try:
                    write_all(handle, content)
                    if mode is not None:
                        os.fchmod(handle, mode)
                    os.fsync(handle)
                finally:
                    os.close(handle)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            failpoint.after_write("agent.file")
    except OSError as error:
        raise ToolFault(f"{place.inside} cannot be written: {error.strerror}.") from error


def sweep(place: Place, mark: str) -> None:
    """Remove the unfinished file that a dead owner left of this call."""
    with suppress(OSError), _folder(place, make=False) as folder:
        os.unlink(f".{os.path.basename(place.path)[:100]}.{mark}.perdure-tmp", dir_fd=folder)


def digest_of(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


@contextmanager
def _folder(place: Place, *, make: bool) -> Iterator[int]:
    """The folder of the file, reached from the root without following a link."""
    parts = [each for each in os.path.dirname(place.inside).split(os.sep) if each not in ("", ".")]
    if place.path == place.root:
        raise ToolFault("That is the root folder; use list.")
    handle = os.open(place.root, _FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=handle)
            inner = os.open(part, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)
