"""Server-sent events: bytes in, events out. Bytes that are no UTF-8 are replaced, never refused."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator

import msgspec

# No provider sends an event of this size; a server that never ends a line must not take the machine's memory.
MAX_EVENT_BYTES = 64 * 1024 * 1024


class EventTooLarge(Exception):
    """An event grew beyond `MAX_EVENT_BYTES`."""


class ServerEvent(msgspec.Struct, frozen=True):
    """One event: its name, "" when it has none, and its data, lines joined."""

    name: str
    data: str


class Decoder:
    """Takes pieces of bytes as they come; gives the events that they end."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that this piece ends. Raises `EventTooLarge`."""
        text = self._rest + self._text.decode(piece)
        # Of a line's end that may have two signs only the first is here.
        held = "\r" if text.endswith("\r") else ""
        lines = (text[: len(text) - len(held)]).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = lines.pop() + held
        found = [event for line in lines if (event := self._line(line)) is not None]
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge(f"An event is larger than {MAX_EVENT_BYTES} bytes.")
        return found

    def finish(self) -> list[ServerEvent]:
        """What was there when the stream ended; an event without its empty line counts, as some servers leave it out."""
        found = [event for line in (self._rest, "") if (event := self._line(line.rstrip("\r"))) is not None]
        self._rest = ""
        return found

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._name = value
        return None


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    """The events of a body. Raises `EventTooLarge`, and whatever reading raises."""
    decoder = Decoder()
    async for piece in pieces:
        for event in decoder.feed(piece):
            yield event
    for event in decoder.finish():
        yield event
