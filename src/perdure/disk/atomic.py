"""Whole files: written under another name, then renamed, so that a reader sees the old content or the new, never a half.

`durable` also asks the disk: the file before the rename, the folder after it. Files that are rebuilt from the log do without.
"""

import errno
import os
import stat
from contextlib import suppress

from perdure.base import failpoint
from perdure.base.errors import EnvironmentFault, Refused

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_count = 0


class DiskFull(EnvironmentFault):
    """No space is left: what was there before is whole, this write is not."""

    code = "disk_full"


class UnsafePath(Refused):
    """Something stands at a path of the state that must not be followed or replaced."""

    code = "unsafe_path"


def replace(path: str, content: bytes, *, durable: bool, mode: int = 0o600) -> None:
    """The file at `path` has this content. Raises `DiskFull` or `EnvironmentFault`; then the old file is whole."""
    global _count
    _count += 1
    temporary = f"{path}.{os.getpid()}-{_count}.tmp"
    failpoint.before_write("disk.replace")
    try:
        handle = os.open(temporary, _FLAGS, mode)
        try:
            write_all(handle, content)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(temporary, path)
        if durable:
            sync_folder(os.path.dirname(path))
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)
        raise explained(error, path) from error
    failpoint.after_write("disk.replace")


def write_new(path: str, content: bytes, *, mode: int = 0o600) -> None:
    """A file in a folder that nobody reads yet, in one go. Raises `DiskFull` or `EnvironmentFault`."""
    failpoint.before_write("disk.write")
    try:
        handle = os.open(path, _WRITE, mode)
        try:
            write_all(handle, content)
        finally:
            os.close(handle)
    except OSError as error:
        raise explained(error, path) from error
    failpoint.after_write("disk.write")


def write_all(handle: int, content: bytes) -> None:
    """All of the content, however little the system takes at once."""
    written = os.write(handle, content)
    while written < len(content):
        content = content[written:]
        written = os.write(handle, content)


def sync_folder(folder: str) -> None:
    """The folder's entries survive a power loss."""
    handle = os.open(folder or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EROFS):  # some file systems cannot sync a folder
            raise
    finally:
        os.close(handle)


def private_folder(path: str) -> None:
    """A folder for its owner only, made with its parents when it is not there.

    Raises `UnsafePath` when something else stands there, `EnvironmentFault` when it cannot be made.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        try:
            _make_folder(path)
        except OSError as error:
            raise explained(error, path) from error
        return
    except OSError as error:
        raise explained(error, path) from error
    if stat.S_ISLNK(found.st_mode):
        found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafePath(f"{path} is no folder.", hint="Move it away, or choose another state home.")


def _make_folder(path: str) -> None:
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        _make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)


def explained(error: OSError, path: str) -> EnvironmentFault:
    """What the system says as an error that names the path, its owner and the way out."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"No space is left to write {path}.", hint="Free some space, then resume.")
    name = path
    while name and not os.path.exists(name):
        name = os.path.dirname(name)
    owner = ""
    if name:
        found = os.stat(name)
        owner = f" {name} belongs to uid {found.st_uid} with mode {stat.S_IMODE(found.st_mode):04o};"
        owner += f" this process is uid {os.geteuid()}." if hasattr(os, "geteuid") else ""
    return EnvironmentFault(f"{path} cannot be written: {error.strerror}.{owner}", hint="Give it write access.")
