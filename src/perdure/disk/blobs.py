"""Blobs: content by its SHA-256, one immutable file each, written once however often it is kept."""

import hashlib
import os
from contextlib import suppress

from perdure.base import failpoint
from perdure.base.errors import NotFound, Refused
from perdure.disk.atomic import explained, private_folder, sync_folder, write_all

_HEX = frozenset("0123456789abcdef")
_CHUNK = 1024 * 1024
_count = 0


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
        """Keep the content; its digest. When this returns, the content survives a power loss."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.path(digest)
        if os.path.exists(path):
            return digest
        temporary = self._temporary(path)
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
            try:
                write_all(handle, content)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise explained(error, path) from error
        self._settle(temporary, path)
        return digest

    def adopt(self, path: str) -> tuple[str, int]:
        """Keep a file's content by moving the file; its digest and size in bytes. The file must be on the same disk."""
        found = hashlib.sha256()
        size = 0
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                found.update(chunk)
                size += len(chunk)
            os.fsync(file.fileno())
        digest = found.hexdigest()
        target = self.path(digest)
        if os.path.exists(target):
            os.unlink(path)
            return digest, size
        self._temporary(target)
        os.chmod(path, 0o400)
        self._settle(path, target)
        return digest, size

    def read(self, digest: str) -> bytes:
        """The content. Raises `BlobMissing`, or `BlobDamaged` when it does not match its digest."""
        path = self.path(digest)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError as error:
            raise BlobMissing(
                f"Blob {digest} is missing: {path}.", hint="Restore it from a copy of the state."
            ) from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise BlobDamaged(f"Blob {path} is damaged.", hint="Restore it from a copy of the state.")
        return content

    def _temporary(self, path: str) -> str:
        """A name beside the target, in a folder that is there."""
        global _count
        _count += 1
        private_folder(os.path.dirname(path))
        return f"{path}.{os.getpid()}-{_count}.tmp"

    def _settle(self, temporary: str, path: str) -> None:
        failpoint.before_write("disk.blob")
        try:
            os.rename(temporary, path)
            sync_folder(os.path.dirname(path))
        except OSError as error:
            raise explained(error, path) from error
        failpoint.after_write("disk.blob")
