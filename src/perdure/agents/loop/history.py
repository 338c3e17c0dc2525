"""The conversation as the log holds it: what was asked, what the model said, what its tools gave. A fold over recorded results.

The result of a turn is `{asked, message, stop, backend, model, ms, attempts, usage?}`: the messages that were new before this turn,
and the model's answer. Results of tools are in their own steps. So the log holds each message once, and all of the conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.llm.protocol import Message, StopReason, ToolResult, Usage

if TYPE_CHECKING:
    from perdure.kernel.context import RunContext


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a provider: what it used, and why it came to nothing when it did."""

    attempt: int
    backend: str
    model: str
    usage: Usage | None = None
    error: str | None = None
    error_code: str | None = None


class TurnRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The recorded result of a turn. `ms` is how long it took, waits for other attempts too."""

    asked: tuple[Message, ...]
    message: Message
    stop: StopReason
    backend: str
    model: str
    ms: int
    attempts: tuple[Attempt, ...] = ()
    usage: Usage | None = None


def turn_of(value: JSON) -> TurnRecord:
    """The turn that a step recorded."""
    return msgspec.convert(value, TurnRecord)


def attempts_of(result: JSON) -> tuple[Attempt, ...]:
    """The attempts of a turn that failed."""
    found = result.get("attempts") if isinstance(result, dict) else None
    return msgspec.convert(found or [], tuple[Attempt, ...])


class Conversation:
    """All messages in their order, and where the part that the model still sees begins.

    A summary stands for what came before it; nothing is ever taken out of `messages`.
    """

    def __init__(self, earlier: tuple[Message, ...] = ()) -> None:
        self.messages: list[Message] = list(earlier)
        self._seen: list[Message] = list(earlier)

    @property
    def seen(self) -> tuple[Message, ...]:
        """What the model is sent."""
        return tuple(self._seen)

    def add(self, *messages: Message) -> None:
        """The next messages."""
        self.messages += messages
        self._seen += messages

    def fold(self, summary: Message, keep: int) -> None:
        """From now on the model sees the system message, this summary, and the last `keep` messages."""
        system = [each for each in self._seen[:1] if each.role == "system"]
        rest = self._seen[len(self._seen) - keep :] if keep else []
        self.messages.append(summary)
        self._seen = [*system, summary, *rest]

    def shorten(self) -> bool:
        """Cut long results of tools in what the model sees; False when that was done before."""
        from perdure.agents.loop.compaction import shortened

        before = self.seen
        self._seen = list(shortened(before))
        return self.seen != before


def steered(text: str) -> str:
    """What a person says in the middle of the work."""
    return f"A person who watches your work says:\n\n{text}"


def written_path(arguments: str) -> str:
    """The file that a call of a writing tool names, "" when it names none."""
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return ""
    path = value.get("path") if isinstance(value, dict) else None
    return path if isinstance(path, str) else ""


def tool_message(results: list[ToolResult]) -> Message:
    """What the tools gave, as the next message."""
    return Message("tool", tool_results=tuple(results))


def recorded_conversation(scope: RunContext, given: JSON) -> tuple[Message, ...] | None:
    """The messages of an earlier agent's conversation, out of the log; None when the log does not hold all of it.

    `given` is what its result says: `{path, turns, earlier}`; `path` is where its turns are, `turns` their numbers."""
    if not isinstance(given, dict):
        return ()
    earlier = recorded_conversation(scope, given.get("earlier"))
    if earlier is None:
        return None
    messages = list(earlier)
    path = str(given.get("path"))
    turns = given.get("turns")
    for number in turns if isinstance(turns, list) else []:
        value = scope.recorded_result(f"{path}/turn-{number}/model")
        if value is None:
            return None
        turn = turn_of(value)
        messages += [*turn.asked, turn.message]
        results = _tool_results(scope, f"{path}/turn-{number}", turn.message)
        if results is None:
            return None
        if results:
            messages.append(tool_message(results))
    return tuple(messages)


def _tool_results(scope: RunContext, path: str, message: Message) -> list[ToolResult] | None:
    results = []
    for number, call in enumerate(message.tool_calls, start=1):
        value: Any = scope.recorded_result(f"{path}/tool-{number}")
        if value is None:
            return None
        results.append(ToolResult(call.id, str(value["text"]), bool(value["is_error"])))
    return results


def unanswered(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The conversation with an answer to calls that got none, so that a provider takes it again."""
    if not messages or messages[-1].role != "assistant" or not messages[-1].tool_calls:
        return messages
    results = [ToolResult(call.id, "not run: the work had ended", True) for call in messages[-1].tool_calls]
    return (*messages, tool_message(results))
