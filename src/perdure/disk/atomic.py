"""Whole files: written under another name, then renamed, so that a reader sees the old content or the new, never a half.

`durable` also asks the disk: the file before the rename, the folder after it. Files that are rebuilt from the log do without.
"""

import errno
import itertools
import os
import stat
from contextlib import suppress

from perdure.base import failpoint
from perdure.base.errors import EnvironmentFault, Refused

_OWN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OWN
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _OWN
# `next` of it is one step for the interpreter, so no two threads get the same number.
_numbers = itertools.count(1)
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_WAYS_OUT = {
    errno.EROFS: "It is on a disk that can only be read; choose another place.",
    errno.EMFILE: "This process has too many files open; raise its limit (`ulimit -n`).",
    errno.ENFILE: "This machine has too many files open.",
    errno.EIO: "The disk does not work as it should; look at the system's log.",
    errno.EISDIR: "Move the folder away.",
    errno.ENOTDIR: "Something that is no folder stands in the way; move it away.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}


class DiskFull(EnvironmentFault):
    """No space is left: what was there before is whole, this write is not."""

    code = "disk_full"


class UnsafePath(Refused):
    """Something stands at a path of the state that must not be followed or replaced."""

    code = "unsafe_path"


def replace(path: str, content: bytes, *, durable: bool, mode: int = 0o600) -> None:
    """The file at `path` has this content. Raises `DiskFull` or `EnvironmentFault`; then the old file is whole."""
    temporary = ""
    try:
        failpoint.before_write("disk.replace")
        temporary, handle = open_beside(path, mode)
        try:
            write_all(handle, content)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, path)
        temporary = ""
        if durable:
            sync_folder(os.path.dirname(path))
    except OSError as error:
        raise explained(error, path) from error
    finally:
        if temporary:
            discard(temporary)
    failpoint.after_write("disk.replace")


def open_beside(path: str, mode: int) -> tuple[str, int]:
    """A new file in the same folder, open to be written: its name, and its handle. Raises OSError."""
    while True:
        temporary = f"{path}.{os.getpid()}-{next(_numbers)}.tmp"
        try:
            return temporary, os.open(temporary, _FLAGS, mode)
        except FileExistsError:
            # Of a process that was killed and had the pid that this one has now.
            continue


def discard(temporary: str) -> None:
    """Remove an unfinished file."""
    with suppress(OSError):
        os.unlink(temporary)


def write_new(path: str, content: bytes, *, mode: int = 0o600) -> None:
    """A file in a folder that nobody reads yet, in one go. Raises `DiskFull` or `EnvironmentFault`."""
    try:
        failpoint.before_write("disk.write")
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
    if written < len(content):
        rest = memoryview(content)[written:]
        while rest:
            rest = rest[os.write(handle, rest) :]


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


def private_folder(path: str, *, follow: bool = False) -> str | None:
    """A folder for its owner only, made with its parents when it is not there.

    What a person should know is returned: that others can look into a folder that was there before. Raises `UnsafePath` when
    something else stands there, a folder of another user, or a symbolic link (unless `follow`, for a path that a person
    chose, allows one that is this user's own); `EnvironmentFault` when the folder cannot be made.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        try:
            _make_folder(path)
        except OSError as error:
            raise explained(error, path) from error
        return None
    except OSError as error:
        raise explained(error, path) from error
    if stat.S_ISLNK(found.st_mode) and follow:
        _check_owner(found, path)
        try:
            found = os.stat(path)
        except OSError as error:
            raise UnsafePath(f"{path} is a symbolic link to nothing.", hint="Remove it, or make its target.") from error
    if stat.S_ISLNK(found.st_mode):
        raise UnsafePath(f"{path} is a symbolic link; it is not followed.", hint="Remove the link.")
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafePath(f"{path} is no folder.", hint="Move it away, or choose another state home.")
    _check_owner(found, path)
    wide = stat.S_IMODE(found.st_mode) & 0o077
    return f"{path} has mode {stat.S_IMODE(found.st_mode):04o}; others can look in." if wide else None


def _check_owner(found: os.stat_result, path: str) -> None:
    """Whoever owns a folder can exchange all that is in it. Root can anyway, and works in folders of others."""
    me = os.geteuid() if hasattr(os, "geteuid") else 0
    if me != 0 and found.st_uid not in (0, me):
        raise UnsafePath(
            f"{path} belongs to uid {found.st_uid}; this process is uid {me}.",
            hint="Choose a folder of your own.",
        )


def _make_folder(path: str) -> None:
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        _make_folder(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        # Made by another process meanwhile, or something that is no folder.
        if not os.path.isdir(path):
            raise


def explained(error: OSError, path: str) -> EnvironmentFault:
    """What the system says as an error that names the path, its owner and the way out."""
    if error.errno in _FULL:
        return DiskFull(f"No space is left to write {path}.", hint="Free some space, then resume.")
    owner = _who_may(path)
    way_out = _WAYS_OUT.get(error.errno or 0, "Give it write access.")
    return EnvironmentFault(f"{path} cannot be written: {error.strerror or error}.{owner}", hint=way_out)


def _who_may(path: str) -> str:
    """The owner and mode of what is there of the path, and who this process is."""
    me = f" this process is uid {os.geteuid()}." if hasattr(os, "geteuid") else ""
    while path:
        try:
            found = os.stat(path)
        except OSError:
            parent = os.path.dirname(path)
            path = parent if parent != path else ""
        else:
            return f" {path} belongs to uid {found.st_uid} with mode {stat.S_IMODE(found.st_mode):04o};{me}"
    return ""
