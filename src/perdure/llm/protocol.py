"""What every model adapter speaks: a conversation in, one turn of the model out.

A conversation is a list of messages. Each message has plain fields that any adapter understands, and, when a provider wrote it,
that provider's own items in `wire`, word for word: the adapter that made them replays them unchanged, so that reasoning stays
readable for the provider and its cache still matches; any other adapter builds its form from the plain fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from perdure.base.errors import PerdureError

Role = Literal["system", "user", "assistant", "tool"]
StopReason = Literal["end", "tool_calls", "max_tokens", "refused", "other"]
DeltaKind = Literal["text", "summary"]
ErrorCode = Literal[
    "AUTHENTICATION",
    "QUOTA",
    "RATE_LIMIT",
    "TRANSIENT",
    "TIMEOUT",
    "CONTEXT_LENGTH",
    "REFUSED",
    "PROVIDER_BUDGET_EXCEEDED",
    "INVALID_RESULT",
    "PROVIDER_ERROR",
]


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model asks for a tool. `arguments` is the JSON text just as the model wrote it; it may be no JSON at all."""

    id: str
    name: str
    arguments: str = "{}"


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool call came to, as text for the model."""

    call_id: str
    text: str
    is_error: bool = False


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation.

    `tool_calls` only with role assistant, `tool_results` only with role tool. `summary` is the public summary of the reasoning,
    for people. `wire` holds the items of the provider named by `wire_format` ("openai.responses", "anthropic.messages",
    "openai.chat"), verbatim and in order.
    """

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    summary: str = ""
    wire_format: str = ""
    wire: tuple[dict[str, Any], ...] = ()


class Tool(msgspec.Struct, frozen=True):
    """What a model may call. `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """One turn that is wanted. An empty text or None is not sent.

    `messages` begins with the system message, if there is one. `schema` is a JSON Schema that the answer must fulfil, where the
    provider can hold the model to it. `cache_key` groups the turns of one conversation. `parameters` joins the body as it is.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    reasoning_effort: str = ""
    max_output_tokens: int | None = None
    cache_key: str = ""
    schema: dict[str, Any] | None = None
    parameters: dict[str, Any] = {}


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider reported them, never inferred; None is "not reported".

    `input_tokens` excludes cached ones at Anthropic and includes them at OpenAI, as those two count."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class ModelTurn(msgspec.Struct, frozen=True):
    """What the model said. `model` is the model that the provider says it was, "" when it does not say."""

    message: Message
    stop_reason: StopReason
    usage: Usage | None = None
    model: str = ""
    request_id: str = ""


class ModelInfo(msgspec.Struct, frozen=True):
    """A model that a backend offers. `context_window` in tokens, None when the provider does not say."""

    slug: str
    display_name: str
    context_window: int | None = None


class ModelError(PerdureError):
    """A turn came to nothing: what happened, in the provider's words, and what may be done about it.

    `retryable`: the same request may succeed later, `retry_after_ms` from now if the provider says when. `had_output`: something
    of an answer had come, so it may have been paid for; `usage` is what was reported before the failure.
    """

    code = "model_failed"
    exit_code = 1

    def __init__(
        self,
        error_code: ErrorCode,
        message: str,
        *,
        retryable: bool = False,
        retry_after_ms: int | None = None,
        had_output: bool = False,
        usage: Usage | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.error_code = error_code
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.had_output = had_output
        self.usage = usage


OnDelta = Callable[[DeltaKind, str], None]


class Model(Protocol):
    """One provider, as one adapter speaks to it. Used from one event loop.

    No method tries again or follows a redirect by itself. Cancelling a call ends its connection.
    """

    name: str
    wire_format: str

    async def turn(self, request: ModelRequest, on_delta: OnDelta) -> ModelTurn:
        """The model's next message, whole. `on_delta` hears text and public reasoning summaries as they come, for display only.

        Raises `ModelError`; an answer that was cut is an error, whatever it held."""

    async def models(self) -> list[ModelInfo]:
        """What the provider offers, in its order. Raises `ModelError`."""

    async def close(self) -> None:
        """Give back connections."""
