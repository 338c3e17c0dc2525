"""Blobs: content by its SHA-256, one immutable file each, written once however often it is kept.

Content that is kept again heals a file of the wrong length. Damage that keeps the length is found when the blob is read.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator

from perdure.base import failpoint
from perdure.base.errors import NotFound, Refused
from perdure.disk.atomic import UnsafePath, discard, explained, open_beside, private_folder, sync_folder, write_all

_HEX = frozenset("0123456789abcdef")
_CHUNK = 1024 * 1024
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class BlobMissing(NotFound):
    """The content is not there."""

    code = "blob_missing"


class BlobDamaged(Refused):
    """The content is not what its name says."""

    code = "blob_damaged"


class Blobs:
    """The folder of all blobs: `ab/abcdef…` by the digest."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, digest: str) -> str:
        """Where the content lies, or would lie. Raises `Refused` when it is no digest."""
        if len(digest) != 64 or not _HEX.issuperset(digest):
            raise Refused(f"{digest[:80]!r} is no SHA-256 in hex.")
        return os.path.join(self.root, digest[:2], digest)

    def put(self, content: bytes) -> str:
        """Keep the content; its digest. When this returns, the content survives a power loss. Raises `DiskFull` or
        `EnvironmentFault`."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.path(digest)
        temporary = ""
        try:
            if self._is_kept(path, len(content)):
                return digest
            self._ready(path)
            temporary, handle = open_beside(path, 0o400)
            try:
                write_all(handle, content)
                os.fsync(handle)
            finally:
                os.close(handle)
            _settle(temporary, path)
            temporary = ""
        except OSError as error:
            raise explained(error, path) from error
        finally:
            if temporary:
                discard(temporary)
        return digest

    def adopt(self, path: str) -> tuple[str, int]:
        """Keep a file's content by moving the file; its digest and size in bytes. The file must be on the same disk. Raises
        `UnsafePath` when it is no regular file, `DiskFull` or `EnvironmentFault`; then the file is where it was."""
        found = hashlib.sha256()
        size = 0
        target = path
        try:
            handle = os.open(path, _READ)
            with open(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise UnsafePath(f"{path} is no regular file.", hint="Keep a file.")
                for chunk in _chunks(file.read):
                    found.update(chunk)
                    size += len(chunk)
                os.fsync(handle)
            digest = found.hexdigest()
            target = self.path(digest)
            if self._is_kept(target, size):
                os.unlink(path)
                return digest, size
            self._ready(target)
            os.chmod(path, 0o400)
            _settle(path, target)
        except OSError as error:
            if os.path.islink(path):
                raise UnsafePath(f"{path} is a symbolic link; it is not followed.", hint="Keep a file.") from error
            raise explained(error, target) from error
        return digest, size

    def read(self, digest: str) -> bytes:
        """The content. Raises `BlobMissing`, or `BlobDamaged` when it does not match its digest."""
        content = b"".join(self._content(digest))
        if hashlib.sha256(content).hexdigest() != digest:
            raise _damaged(self.path(digest))
        return content

    def verify(self, digest: str) -> int:
        """The content's size in bytes, when it is there and whole: else as `read` does. Memory is bounded."""
        found = hashlib.sha256()
        size = 0
        for chunk in self._content(digest):
            found.update(chunk)
            size += len(chunk)
        if found.hexdigest() != digest:
            raise _damaged(self.path(digest))
        return size

    def _content(self, digest: str) -> Iterator[bytes]:
        path = self.path(digest)
        try:
            with open(path, "rb", opener=lambda name, _flags: os.open(name, _READ)) as file:
                yield from _chunks(file.read)
        except FileNotFoundError as error:
            raise BlobMissing(
                f"Blob {digest} is missing: {path}.", hint="Restore it from a copy of the state."
            ) from error
        except OSError as error:
            raise BlobDamaged(
                f"Blob {path} cannot be read: {error.strerror}.", hint="Restore it from a copy of the state."
            ) from error

    def _is_kept(self, path: str, size: int) -> bool:
        """Whether the content is there for good. Another process may have put it there a moment ago, and not yet asked the disk."""
        try:
            if os.lstat(path).st_size != size:
                return False
        except FileNotFoundError:
            return False
        sync_folder(os.path.dirname(path))
        return True

    def _ready(self, path: str) -> None:
        """The folder of the blob is there for good."""
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            private_folder(folder)
            sync_folder(self.root)


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(_CHUNK):
        yield chunk


def _damaged(path: str) -> BlobDamaged:
    return BlobDamaged(f"Blob {path} is damaged.", hint="Restore it from a copy of the state.")


def _settle(temporary: str, path: str) -> None:
    failpoint.before_write("disk.blob")
    os.replace(temporary, path)
    sync_folder(os.path.dirname(path))
    failpoint.after_write("disk.blob")
