"""References to sessions: `user@host/STATE_ID/RUN_ID/STEP/SESSION_ID`. The step may have slashes in it."""

from __future__ import annotations

import os
import re

import msgspec

from perdure.agents.sessions.events import Review

_STATE_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Reference(msgspec.Struct, frozen=True):
    """What a reference names: who made the session (`user@host`), the state that it lies in, and whose it is."""

    producer: str
    state_id: str
    run_id: str
    step: str
    session_id: str

    def text(self) -> str:
        return f"{self.producer}/{self.state_id}/{self.run_id}/{self.step}/{self.session_id}"


def parse_reference(text: str) -> Reference | None:
    """The reference that the text is; None when it has another form."""
    parts = text.split("/")
    if len(parts) < 5 or "@" not in parts[0] or not _STATE_ID.fullmatch(parts[1]):
        return None
    return Reference(parts[0], parts[1], parts[2], "/".join(parts[3:-1]), parts[-1])


def reference_of(header: Review, session_id: str) -> str:
    """How a session is named to others; its id alone when its header does not say whose it is."""
    if not (header.producer and header.state and header.run_id and header.request_id):
        return session_id
    return Reference(header.producer, header.state, header.run_id, header.request_id, session_id).text()


def producer(environ: os._Environ[str] | dict[str, str]) -> str:
    """Who makes sessions here: `user@host`."""
    import socket

    user = environ.get("USER") or environ.get("LOGNAME") or environ.get("USERNAME") or "unknown"
    host = socket.gethostname() or "localhost"
    return f"{user}@{host}".replace("/", "_")
