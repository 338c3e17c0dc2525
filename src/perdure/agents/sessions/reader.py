"""Reading session files: event by event in memory bounded by one event, and what can be said of a conversation as a whole.

What a kill cut off is no event, is told, and costs itself only. A line that is whole and no event is damage: then the conversation
can still be looked at, but nothing goes on in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from perdure.agents.sessions import events
from perdure.agents.sessions.events import Event, Review, Usage
from perdure.agents.sessions.files import SUFFIX, UnreadableSession, check_file
from perdure.base.clock import parse_rfc3339
from perdure.disk import jsonl
from perdure.llm import protocol

NO_RESULT = "No result was saved: the call did not run, or was interrupted and its outcome is unknown."


class Entry(msgspec.Struct, frozen=True):
    """One event, its bytes as they stand, and where: `line` from 1, `offset` and `end` in bytes."""

    event: Event
    raw: bytes
    line: int
    offset: int
    end: int


class Problem(msgspec.Struct, frozen=True):
    """What is no event, and where. `is_torn`: it was cut off by a kill; `is_open`: it is the last line, which may still grow."""

    reason: str
    line: int
    offset: int
    end: int
    is_torn: bool = False
    is_open: bool = False

    def describe(self, path: str) -> str:
        """For people: the file, the place, the fact."""
        fact = "was cut off and is ignored" if self.is_torn else f"is no event: {self.reason}"
        return f"{path}: line {self.line} (byte {self.offset}) {fact}"


def read_events(path: str, offset: int = 0, *, line: int = 1) -> Iterator[Entry | Problem]:
    """The events of a file from an offset, and what is none, in order. A reader that follows goes on at the `end` of the last one,
    or at the `offset` of an open problem.

    Raises `UnreadableSession` when the file does not begin with this session's header, `UnsafePath`, OSError when it cannot be
    opened.
    """
    check_file(path)
    is_begun = offset > 0
    for found in jsonl.read(path, offset, line=line):
        entry = _problem(found) if isinstance(found, jsonl.Damage) else _entry(found)
        if not is_begun and not (isinstance(entry, Problem) and entry.is_torn):
            check_begin(path, entry)
            is_begun = True
        yield entry


def check_begin(path: str, entry: Entry | Problem) -> None:
    """Raises `UnreadableSession` unless a file's first event is the header of the session that the file is named after."""
    if isinstance(entry, Problem):
        raise UnreadableSession(path, entry.reason, entry.line)
    header = entry.event
    if not isinstance(header, Review):
        raise UnreadableSession(path, "it does not begin with a review event", entry.line)
    if header.version != events.VERSION:
        raise UnreadableSession(path, f"it has version {header.version}, and this Perdure reads {events.VERSION}")
    named = os.path.basename(path).removesuffix(SUFFIX)
    if header.session_id not in ("", named):
        raise UnreadableSession(path, f"it holds session {header.session_id}")


def _entry(found: jsonl.Record) -> Entry | Problem:
    try:
        event = events.decode_event(found.raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return Problem(str(error), found.line, found.offset, found.end)
    return Entry(event, found.raw, found.line, found.offset, found.end)


def _problem(found: jsonl.Damage) -> Problem:
    # What a kill leaves of a line lacks its end; a power loss may leave zeros where the line should be.
    is_cut = found.is_torn or "truncated" in found.reason or "NUL" in found.reason or found.raw[-1:] != b"}"
    is_torn = is_cut and "longer than" not in found.reason
    return Problem(found.reason, found.line, found.offset, found.end, is_torn, found.is_torn)


def sound_events(path: str) -> Iterator[Entry]:
    """The events of a file in which nothing is wrong but what a kill cut off. Raises `UnreadableSession` at the first damage,
    and for a file without any event."""
    is_empty = True
    for each in read_events(path):
        if isinstance(each, Entry):
            is_empty = False
            yield each
        elif not each.is_torn:
            raise UnreadableSession(path, each.reason, each.line)
    if is_empty:
        raise UnreadableSession(path, "it holds no event")


class ToolCounts(msgspec.Struct, frozen=True):
    """How many tool calls, and how many of them failed or got no answer."""

    calls: int
    failed: int


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A session in short. `tokens` sums what was reported; times are of the work itself, follow-ups are only counted."""

    backend: str | None
    model: str | None
    reasoning: str | None
    started_at: str | None
    ended_at: str | None
    duration_ms: int | None
    follow_ups: int
    turns: int
    tokens: Usage
    tool_calls: ToolCounts


class _Tally:
    """What a summary counts, event by event."""

    def __init__(self) -> None:
        self.header = Review()
        self.ended_at: str | None = None
        self.follow_ups = self.turns = self.calls = self.failed = 0
        self.tokens: dict[str, int] = {}
        self._turn: tuple[int | None, int] | None = None
        self._pending: list[str] = []

    def add(self, event: Event) -> None:
        match event:
            case Review():
                self.header = event
            case events.Attempt():
                self._count_turn(event)
                self._add_usage(event.usage)
            case events.Message():
                self._add_message(event)
            case events.End():
                self.ended_at = event.at
            case events.Send():
                self.follow_ups += 1
            case _:
                pass

    def _count_turn(self, event: events.Attempt | events.Message) -> None:
        place = (event.send, event.turn)
        if place != self._turn:
            self._turn = place
            self.turns += 1

    def _add_usage(self, usage: Usage | None) -> None:
        for name in Usage.__struct_fields__ if usage is not None else ():
            value = getattr(usage, name)
            if value is not None:
                self.tokens[name] = self.tokens.get(name, 0) + value

    def _add_message(self, event: events.Message) -> None:
        saved = event.message
        if saved.role == "assistant":
            self._count_turn(event)
            self.failed += len(self._pending)
            self._pending = [call.id for call in saved.tool_calls]
            self.calls += len(self._pending)
        for number, result in enumerate(saved.tool_results or ()):
            if result.call_id in self._pending:
                self._pending.remove(result.call_id)
                self.failed += number < len(event.is_error) and event.is_error[number]

    def summary(self) -> Summary:
        header, ended_at = self.header, self.ended_at
        return Summary(
            backend=header.backend,
            model=header.model,
            reasoning=header.reasoning,
            started_at=header.at,
            ended_at=ended_at,
            duration_ms=_span(header.at, ended_at),
            follow_ups=self.follow_ups,
            turns=self.turns,
            tokens=Usage(**self.tokens),
            tool_calls=ToolCounts(self.calls, self.failed + len(self._pending)),
        )


def _span(start: str | None, end: str | None) -> int | None:
    if start is None or end is None:
        return None
    try:
        return parse_rfc3339(end) - parse_rfc3339(start)
    except ValueError:
        return None


def summary(path: str) -> Summary:
    """The session in short, in memory bounded by one event. Raises `UnreadableSession`."""
    tally = _Tally()
    for entry in sound_events(path):
        tally.add(entry.event)
    return tally.summary()


def messages_for_replay(path: str, before_send: int | None = None) -> list[protocol.Message]:
    """The conversation as a provider takes it back: every message unchanged, and an error as the result of each tool call that
    has none, because no provider takes a call without one. With `before_send` without that follow-up and those after it.

    Raises `UnreadableSession`."""
    found: list[protocol.Message] = []
    asked: list[str] = []
    for entry in sound_events(path):
        if not isinstance(entry.event, events.Message):
            continue
        if before_send is not None and (entry.event.send or 0) >= before_send:
            continue
        message = events.message_of(entry.event)
        if message.role != "tool":
            _answer_rest(found, asked)
            asked = list(dict.fromkeys(call.id for call in message.tool_calls))
        for result in message.tool_results:
            if result.call_id in asked:
                asked.remove(result.call_id)
        found.append(message)
    _answer_rest(found, asked)
    return found


def _answer_rest(found: list[protocol.Message], asked: list[str]) -> None:
    """What was asked and not answered gets an error, in the message that holds the other results when there is one."""
    if not asked:
        return
    rest = tuple(protocol.ToolResult(call_id, NO_RESULT, is_error=True) for call_id in asked)
    if found[-1].role == "tool":
        last = found[-1]
        found[-1] = msgspec.structs.replace(last, tool_results=last.tool_results + rest, wire_format="", wire=())
    else:
        found.append(protocol.Message("tool", tool_results=rest))
