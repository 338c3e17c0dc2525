"""Values too large for the log: their content becomes a blob, and the event holds `{"$blob": digest, "bytes": N, "form": F}`.

`form` is `text` for a text and `json` for any other value. `$blob` is no key that a recorded value may have.
"""

import os
from typing import Any, Protocol

from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON, decode, encode

MARK = "$blob"
_INLINE_FILE = 16 * 1024


class BlobStore(Protocol):
    """Content by its digest."""

    def put(self, content: bytes) -> str:
        """Keep the content, durably; its SHA-256 in hex."""

    def adopt(self, path: str) -> tuple[str, int]:
        """Keep a file's content, moved from its path; its digest and its size in bytes."""

    def read(self, digest: str) -> bytes:
        """The content. Raises when it is missing or damaged."""


class ReservedKey(Refused):
    """A value with the key that marks a blob."""

    code = "reserved_key"


def reference(digest: str, size: int, form: str) -> dict[str, JSON]:
    """What stands in an event for content kept as a blob."""
    return {MARK: digest, "bytes": size, "form": form}


def is_reference(value: object) -> bool:
    """Whether the value stands for a blob."""
    return isinstance(value, dict) and MARK in value


def offload(body: bytes, blobs: BlobStore, limit: int) -> bytes:
    """The properties with their largest values moved to blobs until they fit the limit (bytes)."""
    properties: dict[str, Any] = decode(body)  # type: ignore[assignment]
    sizes = sorted(((len(encode(value)), key) for key, value in properties.items()), reverse=True)
    total = len(body)
    for size, key in sizes:
        if total <= limit or size < 1024:
            break
        if is_reference(properties[key]):
            continue
        properties[key] = keep(properties[key], blobs)
        total -= size
    return encode(properties)


def keep(value: JSON, blobs: BlobStore) -> dict[str, JSON]:
    """The value's content as a blob, and the reference to it."""
    if isinstance(value, str):
        content, form = value.encode(), "text"
    else:
        content, form = encode(value), "json"
    return reference(blobs.put(content), len(content), form)


def resolve(value: JSON, blobs: BlobStore) -> JSON:
    """The value itself, read from its blob when it is a reference."""
    if not is_reference(value):
        return value
    content = blobs.read(str(value[MARK]))  # type: ignore[index,call-overload]
    if value["form"] == "text":  # type: ignore[index,call-overload]
        return content.decode("utf-8", "replace")
    return decode(content)


def keep_file(path: str, blobs: BlobStore) -> JSON:
    """A finished file as a value for the log: its text when it is small and UTF-8, else a reference to a blob made of it.

    The file itself may be gone afterwards: a large one is moved, not copied.
    """
    if os.path.getsize(path) <= _INLINE_FILE:
        with open(path, "rb") as file:
            content = file.read()
        try:
            return content.decode()
        except UnicodeDecodeError:
            return reference(blobs.put(content), len(content), "text")
    digest, size = blobs.adopt(path)
    return reference(digest, size, "text")
