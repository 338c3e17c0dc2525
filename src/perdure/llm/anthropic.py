"""The backend `anthropic`: the Messages API. Thinking is replayed as it came, with its signature.

The vendor's library signs, sends and reads errors; the stream's bytes are decoded here, so that every block stays word for word.
"""

from __future__ import annotations

import re
from typing import Any

from perdure.llm.anthropic_stream import WIRE, Reading
from perdure.llm.protocol import Message, ModelInfo, ModelRequest, ModelTurn, OnDelta, ToolCall
from perdure.llm.sse import events
from perdure.llm.text import arguments_object, as_count, as_objects, clean, parse_object
from perdure.llm.transport import Endpoint, Progress, check_content, checked_effort, explained, new_client

EFFORTS = ("low", "medium", "high", "max")
MAX_TURN_TOKENS = 16_384
_CACHE = {"type": "ephemeral"}
_CACHEABLE = ("text", "tool_result", "tool_use")


class AnthropicModel:
    """Anthropic's Messages API. The reported model must be the requested one, or its dated snapshot."""

    name = "anthropic"
    wire_format = WIRE

    def __init__(self, endpoint: Endpoint) -> None:
        from anthropic import AsyncAnthropic

        self._endpoint = endpoint
        http = new_client(endpoint)
        self._client = AsyncAnthropic(
            api_key=endpoint.key,
            base_url=endpoint.base_url or "https://api.anthropic.com",
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )

    async def turn(self, request: ModelRequest, on_delta: OnDelta) -> ModelTurn:
        """One turn. Raises `ModelError`, also for an answer that was cut at its limit; `Refused` for an effort it has not."""
        from anthropic import AnthropicError

        body = request_body(request)
        reading = Reading(self._endpoint, request.model, on_delta)
        async with explained(self._endpoint, reading.progress, (AnthropicError,)):
            opened = self._client.messages.with_streaming_response.create(**body)
            async with opened as response:
                check_content(self._endpoint, response.headers)
                async for event in events(response.iter_bytes()):
                    if event.data:
                        reading.take(parse_object(event.data))
        return reading.turn()

    async def models(self) -> list[ModelInfo]:
        """All models, page by page, in the provider's order."""
        from anthropic import AnthropicError

        found: list[ModelInfo] = []
        after = ""
        async with explained(self._endpoint, Progress(), (AnthropicError,)):
            while True:
                asked = self._client.models.with_raw_response
                response = await (asked.list(limit=1000, after_id=after) if after else asked.list(limit=1000))
                check_content(self._endpoint, response.headers)
                page = parse_object(response.http_response.content.decode("utf-8", "replace"))
                found += [_info(row) for row in as_objects(page.get("data")) if row.get("id")]
                last = str(page.get("last_id") or "")
                # A server that says the same page again would go on for ever.
                if not page.get("has_more") or last in ("", after):
                    return found
                after = last

    async def close(self) -> None:
        await self._client.close()


def _info(row: dict[str, Any]) -> ModelInfo:
    return ModelInfo(str(row["id"]), str(row.get("display_name") or row["id"]), as_count(row.get("max_input_tokens")))


def request_body(request: ModelRequest) -> dict[str, Any]:
    """What is sent. Raises `Refused` for a reasoning effort that does not exist."""
    effort = checked_effort("anthropic", request.reasoning_effort, EFFORTS)
    system = "\n\n".join(message.text for message in request.messages if message.role == "system" and message.text)
    body: dict[str, Any] = {
        "model": request.model,
        "stream": True,
        "max_tokens": min(request.max_output_tokens or MAX_TURN_TOKENS, MAX_TURN_TOKENS),
        "messages": _messages(request.messages),
    }
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _CACHE}]
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    output: dict[str, Any] = {}
    if effort:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        output["effort"] = effort
    if request.schema is not None:
        output["format"] = {"type": "json_schema", "schema": request.schema}
    if output:
        body["output_config"] = output
    if request.parameters:
        body["extra_body"] = request.parameters
    cleaned: dict[str, Any] = clean(body)
    return cleaned


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """The conversation as this API wants it: user and assistant take turns, results come first in a user's message."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _assistant(message) if role == "assistant" else _user(message)
        if not blocks:
            continue
        if found and found[-1]["role"] == role:
            found[-1]["content"] += blocks
        else:
            found.append({"role": role, "content": blocks})
    if found and found[-1]["content"][-1]["type"] in _CACHEABLE:
        # All up to here is the same in the next turn, so it need not be read again.
        last = found[-1]["content"]
        last[-1] = {**last[-1], "cache_control": _CACHE}
    return found


def _user(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for result in message.tool_results:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(result.call_id), "content": result.text}
        blocks.append({**block, "is_error": True} if result.is_error else block)
    return [*blocks, *_text(message.text)]


def _assistant(message: Message) -> list[dict[str, Any]]:
    if message.wire_format == WIRE and message.wire:
        # A stream that was cut leaves thinking without a signature, which the provider would refuse.
        return [dict(block) for block in message.wire if _is_signed(block)]
    return [*_text(message.text), *(_tool_use(call) for call in message.tool_calls)]


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": arguments_object(call.arguments)}


def _is_signed(block: dict[str, Any]) -> bool:
    return block.get("type") != "thinking" or bool(block.get("signature"))


def _text(text: str) -> list[dict[str, Any]]:
    """A text as blocks; one of white space only would be refused."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _id(given: str) -> str:
    """An id of another provider as this one takes it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", given) or "_"
