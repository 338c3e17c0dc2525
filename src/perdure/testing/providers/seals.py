"""What a provider hands out and wants back unchanged. Each carries its own proof, so that a fake that was started anew still knows it."""

from __future__ import annotations

import hashlib


class Wrong(Exception):
    """A request that a real provider would refuse: the status, the error's type, and why."""

    def __init__(self, why: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(why)
        self.why, self.status, self.kind = why, status, kind


def seal(text: str) -> str:
    """The proof of a text."""
    return "sealed-" + hashlib.sha256(b"fake provider:" + text.encode("utf-8", "replace")).hexdigest()[:40]


def call_id(prefix: str, number: int, place: int, reasoning: str = "") -> str:
    """An id of a tool call that tells whether reasoning led to it, and which."""
    return f"{prefix}_{number}_{place}" + (f"_after_{reasoning}" if reasoning else "")


def reasoning_of(identity: str) -> str:
    """The id of the reasoning that led to a call, "" for none."""
    return identity.partition("_after_")[2]


def require(truth: object, why: str) -> None:
    """Raises `Wrong` when it is not so."""
    if not truth:
        raise Wrong(why)
