"""A conversation as people read it: events in, blocks of text out, new ones and changed ones.

Shown are the texts of messages, public summaries of reasoning, and groups of tool calls by name, target and state. Never shown
are the envelopes, private reasoning, arguments, and what a tool gave back when it went well. Only blocks that may still change
are kept here.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from perdure.agents.sessions import events
from perdure.agents.sessions.events import Delivery, Event

BlockKind = Literal[
    "session", "system", "user", "assistant", "summary", "tools", "follow_up", "failure", "end", "removed"
]
ToolState = Literal["running", "done", "failed", "no result"]
_TARGETS = ("path", "file_path", "notebook_path", "directory", "url", "pattern", "glob", "name")
_TARGET_WIDTH = 80
_ERROR_WIDTH = 200


class ToolLine(msgspec.Struct, frozen=True):
    """One tool call: its name, what it is about, how it stands; the first line of its error."""

    call_id: str
    name: str
    target: str
    state: ToolState = "running"
    error: str = ""


class Block(msgspec.Struct, frozen=True):
    """A piece of the transcript. The same `number` again replaces what was shown under it; kind `removed` takes it away. Until
    it `is_final` it may change. `is_interrupted`: the text is a part only, and the rest never came."""

    number: int
    kind: BlockKind
    text: str = ""
    tools: tuple[ToolLine, ...] = ()
    is_final: bool = True
    is_interrupted: bool = False


class _Shown(msgspec.Struct):
    """A provisional text: the block, and which turn, attempt and block of the stream it is."""

    place: tuple[int, int, int, int]
    block: Block


class Transcript:
    """Turns events into blocks, in the order of the file."""

    def __init__(self) -> None:
        self._count = 0
        self._shown: list[_Shown] = []
        self._tools: Block | None = None
        self._done = (0, -1)
        self._question: str | None = None
        self._last_said = ""

    def feed(self, event: Event) -> list[Block]:
        """What is new or changed with the event."""
        match event:
            case Delivery():
                return self._deliver(event)
            case events.Message():
                return self._message(event)
            case events.Attempt():
                return self._attempt(event)
            case events.Review():
                return [self._new("session", _headline(event))]
            case events.Send():
                self._question = event.text
                changed = " (files have changed since)" if event.files_changed else ""
                return [*self.rest(), self._new("follow_up", f"Follow-up {event.send or 1}{changed}: {event.text}")]
            case _:
                return [*self.rest(), *self._end(event)]

    def rest(self) -> list[Block]:
        """What is still open, as final: text as interrupted, tools without a result. For the end of a file, too."""
        found = [replace(each.block, is_final=True, is_interrupted=True) for each in self._shown]
        self._shown = []
        return [*found, *self._settle_tools()]

    def _new(self, kind: BlockKind, text: str, *, tools: tuple[ToolLine, ...] = (), is_final: bool = True) -> Block:
        self._count += 1
        return Block(self._count, kind, text, tools, is_final)

    def _deliver(self, event: Delivery) -> list[Block]:
        turn = (event.send or 0, event.turn)
        if turn <= self._done:
            return []  # its message is there already
        place = (*turn, event.attempt, event.block)
        found = self.rest() if self._shown and self._shown[0].place[:3] != place[:3] else self._settle_tools()
        shown = next((each for each in self._shown if each.place == place), None)
        if shown is None:
            kind: BlockKind = "summary" if event.content_kind == "summary" else "assistant"
            shown = _Shown(place, self._new(kind, "", is_final=False))
            self._shown.append(shown)
        is_interrupted = event.state == "interrupted"
        text = shown.block.text + event.text
        shown.block = replace(shown.block, text=text, is_final=is_interrupted, is_interrupted=is_interrupted)
        if is_interrupted:
            self._shown.remove(shown)
        return [*found, shown.block]

    def _message(self, event: events.Message) -> list[Block]:
        saved = event.message
        if saved.tool_results is not None:
            return self._results(event)
        if saved.role == "assistant":
            return self._said(event)
        found = self.rest()
        if saved.role == "system":
            return [*found, self._new("system", f"System prompt, {len(saved.text)} characters")]
        text = saved.text if event.question is None else event.question
        if text == self._question and event.send is not None:
            self._question = None  # the follow-up's beginning showed it
            return found
        return [*found, self._new("user", text)]

    def _said(self, event: events.Message) -> list[Block]:
        """What came bit by bit gives way to the whole message."""
        saved = event.message
        self._last_said = saved.text
        self._done = (event.send or 0, event.turn)
        found = self._settle_tools()
        mine = [each.block for each in self._shown if each.place[:2] == self._done]
        self._shown = [each for each in self._shown if each.place[:2] != self._done]
        found = [*self.rest(), *found]
        for kind, text in (("summary", saved.summary), ("assistant", saved.text)):
            found += self._final(kind, text, [each for each in mine if each.kind == kind])  # type: ignore[arg-type]
        if saved.tool_calls:
            lines = tuple(ToolLine(each.id, each.name, _target(each.arguments)) for each in saved.tool_calls)
            self._tools = self._new("tools", "", tools=lines, is_final=False)
            found.append(self._tools)
        return found

    def _final(self, kind: BlockKind, text: str, shown: list[Block]) -> list[Block]:
        if not text and kind == "summary":
            return [replace(each, is_final=True) for each in shown]  # the stream alone had it
        if not shown:
            return [self._new(kind, text)] if text else []
        first = replace(shown[0], text=text, is_final=True, kind=kind if text else "removed")
        return [first, *(Block(each.number, "removed") for each in shown[1:])]

    def _results(self, event: events.Message) -> list[Block]:
        if self._tools is None:
            return []
        lines = list(self._tools.tools)
        for number, result in enumerate(event.message.tool_results or ()):
            is_error = number < len(event.is_error) and event.is_error[number]
            for at, line in enumerate(lines):
                if line.call_id == result.call_id and line.state == "running":
                    error = _one_line(result.text, _ERROR_WIDTH) if is_error else ""
                    lines[at] = replace(line, state="failed" if is_error else "done", error=error)
                    break
        is_final = all(each.state != "running" for each in lines)
        block = replace(self._tools, tools=tuple(lines), is_final=is_final)
        self._tools = None if is_final else block
        return [block]

    def _settle_tools(self) -> list[Block]:
        block, self._tools = self._tools, None
        if block is None:
            return []
        lines = tuple(replace(each, state="no result") if each.state == "running" else each for each in block.tools)
        return [replace(block, tools=lines, is_final=True)]

    def _attempt(self, event: events.Attempt) -> list[Block]:
        if event.error is None:
            return []
        return [
            *self.rest(),
            self._new("failure", f"Attempt {event.attempt} failed, {event.error_code}: {event.error}"),
        ]

    def _end(self, event: events.End | events.Answer) -> list[Block]:
        if event.error is not None:
            return [self._new("failure", f"Ended, {event.error_code}: {event.error}")]
        if isinstance(event, events.End):
            return [self._new("end", "The work ended.")]
        is_new = isinstance(event.text, str) and event.text != self._last_said
        return [self._new("assistant", str(event.text))] if is_new else []


def text_of(block: Block) -> str:
    """The block as plain text for people, without what it is labelled with."""
    if block.kind != "tools":
        return block.text
    return "\n".join(
        " ".join(filter(None, [each.name, each.target, f"[{each.state}]", each.error])) for each in block.tools
    )


def label_of(block: Block) -> str:
    """What stands before a block: who speaks; empty where the text says it."""
    name = {"user": "User", "assistant": "Agent", "summary": "Reasoning, in short", "tools": "Tools"}.get(
        block.kind, ""
    )
    if block.kind == "tools":
        name = f"Tools, {len(block.tools)} call{'s' if len(block.tools) != 1 else ''}"
    return f"{name} (interrupted)" if block.is_interrupted else name


def _headline(header: events.Review) -> str:
    parts = [f"Session {header.session_id}"]
    parts += [each for each in (header.backend, header.model, header.reasoning) if each]
    if header.run_id:
        parts.append(f"run {header.run_id}")
    parts += [each for each in (header.request_id or header.eval_id, header.at) if each]
    return "  ".join(parts)


def _target(arguments: str) -> str:
    """What a call is about: a path or the like. Of a command only its program, since its words are arguments."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, object])
    except (ValueError, RecursionError):
        return ""
    for name in _TARGETS:
        value = given.get(name)
        if isinstance(value, str) and value:
            return _one_line(value.partition("?")[0] if name == "url" else value, _TARGET_WIDTH)
    command = given.get("command")
    words = command.split() if isinstance(command, str) else []
    return _one_line(words[0], _TARGET_WIDTH) if words else ""


def _one_line(text: str, width: int) -> str:
    line = " ".join(text[: width * 4].split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
