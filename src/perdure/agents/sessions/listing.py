"""Sessions in a list: what each is called and when it was last written, from the beginning and the end of its file only."""

from __future__ import annotations

import os

import msgspec

from perdure.agents.sessions import events
from perdure.agents.sessions.events import Event, Review
from perdure.agents.sessions.files import SessionFile, UnreadableSession, check_file, list_files
from perdure.agents.sessions.reader import Entry, read_events
from perdure.base.clock import rfc3339
from perdure.base.errors import PerdureError
from perdure.disk.home import StateHome

TITLE_WIDTH = 80
_PIECE = 16 * 1024
_MOST_HEAD = 256 * 1024
_MOST_TAIL = 4 * 1024 * 1024


class Listed(msgspec.Struct, frozen=True, rename="camel"):
    """One session as lists show it. `updated_at` is the time of its last event. `problem` says why it cannot be read."""

    session_id: str
    title: str
    backend: str | None
    model: str | None
    run_id: str | None
    request_id: str | None
    eval_id: str | None
    started_at: str | None
    updated_at: str
    is_ended: bool
    bytes: int
    problem: str | None = None


def list_sessions(home: StateHome) -> list[Listed]:
    """Every session, the one that was written last first. One that cannot be read costs itself only. Raises `UnsafePath`."""
    found = [listed(each) for each in list_files(home)]
    return sorted(found, key=lambda each: (each.updated_at, each.session_id), reverse=True)


def listed(file: SessionFile) -> Listed:
    """One session's line of the list; a problem stands in it."""
    written_at = rfc3339(file.written_ns // 1_000_000)
    try:
        header, title = _head(file.path)
        updated_at, is_ended = _tail(file.path)
    except (PerdureError, OSError) as error:
        reason = error.reason if isinstance(error, UnreadableSession) else str(error)
        return Listed(
            file.session_id, "", None, None, None, None, None, None, written_at, False, file.size, problem=reason
        )
    return Listed(
        session_id=file.session_id,
        title=title,
        backend=header.backend,
        model=header.model,
        run_id=header.run_id,
        request_id=header.request_id,
        eval_id=header.eval_id,
        started_at=header.at,
        updated_at=updated_at or written_at,
        is_ended=is_ended,
        bytes=file.size,
    )


def read_header(path: str) -> Review:
    """The header of a session's file. Raises `UnreadableSession`, `UnsafePath`, OSError."""
    for each in read_events(path):
        if isinstance(each, Entry) and isinstance(each.event, Review):
            return each.event
    raise UnreadableSession(path, "it holds no event")


def _head(path: str) -> tuple[Review, str]:
    """The header, and what the conversation is called: by the header, else by what was first asked, else by its node."""
    check_file(path)
    header = None
    size = _PIECE
    while True:
        with open(path, "rb") as file:
            content = file.read(size)
        is_whole = len(content) < size
        found = _whole_events(content[: content.rfind(b"\n") + 1] if not is_whole else content)
        header = next((each for each in found if isinstance(each, Review)), None)
        title = "" if header is None else header.title or _asked(found)
        if is_whole or (header is not None and title) or size >= _MOST_HEAD:
            break
        size *= 4
    if header is None or found[0] is not header or header.session_id != _id_of(path):
        header = read_header(path)
    return header, _one_line(title or header.title or header.eval_id or "")


def _id_of(path: str) -> str:
    return os.path.basename(path).removesuffix(".jsonl")


def _asked(found: list[Event]) -> str:
    for each in found:
        if isinstance(each, events.Message) and each.message.role == "user" and each.message.text:
            return each.message.text
    return ""


def _one_line(text: str) -> str:
    line = " ".join(text[:1000].split())
    return line if len(line) <= TITLE_WIDTH else f"{line[: TITLE_WIDTH - 1]}…"


def _tail(path: str) -> tuple[str | None, bool]:
    """The time of the last event, and whether the last one that is not only shown is an end."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        piece = _PIECE
        while True:
            start = max(0, size - piece)
            file.seek(start)
            content = file.read(size - start)
            found = _whole_events(content if start == 0 else content.partition(b"\n")[2])
            told = [each for each in found if not isinstance(each, events.Delivery)]
            if told or start == 0 or piece >= _MOST_TAIL:
                break
            piece *= 8
    updated_at = next((each.at for each in reversed(found) if each.at is not None), None)
    return updated_at, bool(told) and isinstance(told[-1], (events.End, events.Answer))


def _whole_events(content: bytes) -> list[Event]:
    found = []
    for line in content.split(b"\n"):
        try:
            found.append(events.decode_event(line))
        except (ValueError, RecursionError):  # cut off, or damage that matters to whoever reads it all
            continue
    return found
