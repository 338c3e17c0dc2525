"""Session files made by hand, for the tests that read them."""

from collections.abc import Iterable
from pathlib import Path

from perdure.agents.sessions.events import Event, Review, encode_event
from perdure.disk.home import StateHome


def header(session_id: str = "s", **changes: object) -> Review:
    values: dict[str, object] = {"session_id": session_id, "at": "2026-03-07T09:30:00.000Z", **changes}
    return Review(**values)  # type: ignore[arg-type]


def lines(*found: Event) -> bytes:
    return b"".join(encode_event(each) + b"\n" for each in found)


def write(home: StateHome, content: bytes | Iterable[Event], session_id: str = "s") -> Path:
    folder = Path(home.agent_sessions)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = folder / f"{session_id}.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else lines(*content))
    return path
