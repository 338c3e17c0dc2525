"""What stands in a session file: one event a line, and how a message of a conversation becomes one and back.

Fields that are not there were not known. A field of a newer Perdure is kept in the file; a kind that is not known is an error.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, field

from perdure.base.errors import Refused
from perdure.llm import protocol

VERSION = 1
DeliveryState = Literal["delta", "complete", "interrupted"]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Tokens as the provider reported them; what is None was not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class ToolCall(msgspec.Struct, frozen=True, rename="camel"):
    """A model asks for a tool; `arguments` is the text as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResult(msgspec.Struct, frozen=True, rename="camel"):
    """What a tool call came to."""

    call_id: str
    text: str


class SavedMessage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A message as files hold it. Results of tools are a user's message with `tool_results`; `wire` is the provider's own form."""

    role: Literal["system", "user", "assistant"]
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] | None = None
    summary: str = ""
    wire_format: str = ""
    wire: tuple[dict[str, Any], ...] = ()


class Budgets(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the work may cost; None has no limit."""

    timeout_ms: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="kind"):
    """`send` is the number of the follow-up that the event belongs to; `at` is RFC 3339."""

    send: int | None = None
    at: str | None = None


class Review(_Event, frozen=True, tag="review"):
    """The header: whose conversation it is, and what was asked with. Always the first event.

    Of a graph's agent: `request_id` is the step, `eval_id` the node, `target` the workflow. `title` and `thread_id` are ours.
    `parameters` is what was sent beside the messages, `tools` their definitions.
    """

    version: int = field(default_factory=lambda: VERSION)  # a factory, so that it is always written
    session_id: str = ""
    run_id: str | None = None
    request_id: str | None = None
    eval_id: str | None = None
    target: str | None = None
    producer: str | None = None
    state: str | None = None
    backend: str | None = None
    model: str | None = None
    reasoning: str | None = None
    title: str | None = None
    thread_id: str | None = None
    parameters: dict[str, Any] | None = None
    budgets: Budgets | None = None
    tools: tuple[protocol.Tool, ...] | None = None


class Message(_Event, frozen=True, tag="message", kw_only=True):
    """One message of the conversation. `is_error` has a flag for each tool result, `question` is what a person asked, without the
    frame around it. `repair` marks a turn that mends an answer."""

    turn: int
    message: SavedMessage
    repair: bool = False
    is_error: tuple[bool, ...] = ()
    question: str | None = None


class Attempt(_Event, frozen=True, tag="attempt", kw_only=True):
    """One call of the provider: what it used, and why it failed when it did."""

    turn: int
    attempt: int
    usage: Usage | None = None
    error: str | None = None
    error_code: str | None = None


class _Ending(_Event, frozen=True):
    """An answer, or an error with its code, or neither."""

    error_code: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if (self.error is None) != (self.error_code is None):
            raise ValueError("errorCode and error go together")


class End(_Ending, frozen=True, tag="end"):
    """The work has ended: `result`, or an error, or neither."""

    result: Any = UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.result is not UNSET and self.error is not None:
            raise ValueError("result and error exclude each other")


class Send(_Event, frozen=True, tag="send", kw_only=True):
    """A follow-up begins: what a person asked, the frame that it was put in, and the tools that are offered now."""

    text: str
    framing: str = ""
    files_changed: bool = False
    tools: tuple[protocol.Tool, ...] = ()


class Answer(_Ending, frozen=True, tag="answer"):
    """A follow-up has ended: `text`, or an error, or neither."""

    text: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text is not UNSET and self.error is not None:
            raise ValueError("text and error exclude each other")


class Delivery(_Event, frozen=True, tag="delivery", kw_only=True):
    """Text as it came, for display only: `text` goes on where the block's last one ended, in every state."""

    turn: int
    attempt: int
    block: int
    content_kind: protocol.DeltaKind
    text: str = ""
    state: DeliveryState = "delta"


Event: TypeAlias = Review | Message | Attempt | End | Send | Answer | Delivery
decode_event = msgspec.json.Decoder(Event).decode


def message_event(
    turn: int, message: protocol.Message, *, repair: bool = False, question: str | None = None
) -> Message:
    """A message of a conversation as an event; `message_of` gives the same message back."""
    is_tool = message.role == "tool"
    saved = SavedMessage(
        role="user" if message.role == "tool" else message.role,
        text=message.text,
        tool_calls=tuple(ToolCall(each.id, each.name, each.arguments) for each in message.tool_calls),
        tool_results=tuple(ToolResult(each.call_id, each.text) for each in message.tool_results) if is_tool else None,
        summary=message.summary,
        wire_format=message.wire_format,
        wire=message.wire,
    )
    is_error = tuple(each.is_error for each in message.tool_results) if is_tool else ()
    return Message(turn=turn, message=saved, repair=repair, is_error=is_error, question=question)


def message_of(event: Message) -> protocol.Message:
    """The message that was made an event."""
    saved = event.message
    flags = event.is_error
    return protocol.Message(
        role=saved.role if saved.tool_results is None else "tool",
        text=saved.text,
        tool_calls=tuple(protocol.ToolCall(each.id, each.name, each.arguments) for each in saved.tool_calls),
        tool_results=tuple(
            protocol.ToolResult(each.call_id, each.text, number < len(flags) and flags[number])
            for number, each in enumerate(saved.tool_results or ())
        ),
        summary=saved.summary,
        wire_format=saved.wire_format,
        wire=saved.wire,
    )


def attempt_event(
    turn: int, attempt: int, usage: protocol.Usage | None, error: protocol.ModelError | None = None
) -> Attempt:
    """One call of a provider as an event."""
    used = usage if error is None else error.usage
    return Attempt(
        turn=turn,
        attempt=attempt,
        usage=None if used is None else Usage(*(getattr(used, name) for name in Usage.__struct_fields__)),
        error=None if error is None else error.message,
        error_code=None if error is None else error.error_code,
    )


def encode_event(event: Event) -> bytes:
    """One line of a file, without its end. Halves of surrogate pairs become U+FFFD, because no provider takes them back.

    Raises `Refused` when the event holds what JSON has not."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(event)))
    except TypeError as error:
        raise Refused(f"An event of a session cannot be written: {error}") from error


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(each) for each in value]
    return value
