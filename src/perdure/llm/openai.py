"""The backend `openai`: the Responses API, nothing stored at the provider, reasoning replayed as it came, encrypted.

The vendor's library signs, sends and reads errors; the stream's bytes are decoded here, so that every item stays word for word.
"""

from __future__ import annotations

from typing import Any

from perdure.llm import failures
from perdure.llm.protocol import (
    Message,
    ModelError,
    ModelInfo,
    ModelRequest,
    ModelTurn,
    OnDelta,
    StopReason,
    ToolCall,
    Usage,
)
from perdure.llm.schemas import is_strict
from perdure.llm.sse import events
from perdure.llm.text import as_count, as_object, as_objects, clean, parse_object
from perdure.llm.transport import Endpoint, Progress, check_content, check_model, checked_effort, explained, new_client

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
WIRE = "openai.responses"


class OpenAIModel:
    """OpenAI's Responses API. The reported model must be the requested one, or its dated snapshot (`gpt-5-2025-08-07`)."""

    name = "openai"
    wire_format = WIRE

    def __init__(self, endpoint: Endpoint) -> None:
        from openai import AsyncOpenAI

        self._endpoint = endpoint
        http = new_client(endpoint)
        self._client = AsyncOpenAI(
            api_key=endpoint.key,
            base_url=endpoint.base_url or "https://api.openai.com/v1",
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )

    async def turn(self, request: ModelRequest, on_delta: OnDelta) -> ModelTurn:
        """One turn. Raises `ModelError`, also for an answer that the provider calls incomplete; `Refused` for an effort it has not."""
        from openai import OpenAIError

        body = request_body(request)
        reading = Reading(self._endpoint, request.model, on_delta)
        async with explained(self._endpoint, reading.progress, (OpenAIError,)):
            opened = self._client.responses.with_streaming_response.create(**body)
            async with opened as response:
                check_content(self._endpoint, response.headers)
                async for event in events(response.iter_bytes()):
                    if event.data and event.data != "[DONE]":
                        reading.take(parse_object(event.data))
        return reading.turn()

    async def models(self) -> list[ModelInfo]:
        """All models of the account, in the provider's order."""
        from openai import OpenAIError

        async with explained(self._endpoint, Progress(), (OpenAIError,)):
            response = await self._client.models.with_raw_response.list()
            check_content(self._endpoint, response.headers)
            found = parse_object(response.http_response.content.decode("utf-8", "replace"))
        return [ModelInfo(str(row["id"]), str(row["id"])) for row in as_objects(found.get("data")) if row.get("id")]

    async def close(self) -> None:
        await self._client.close()


def request_body(request: ModelRequest) -> dict[str, Any]:
    """What is sent. Raises `Refused` for a reasoning effort that does not exist."""
    effort = checked_effort("openai", request.reasoning_effort, EFFORTS)
    messages = request.messages
    body: dict[str, Any] = {
        "model": request.model,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if messages and messages[0].role == "system":
        body["instructions"], messages = messages[0].text, messages[1:]
    body["input"] = [item for message in messages for item in _items(message)]
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
        body["parallel_tool_calls"] = False
    if effort:
        # The public summary is all that a person may see of it.
        body["reasoning"] = {"effort": effort} if effort == "none" else {"effort": effort, "summary": "auto"}
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    if request.schema is not None:
        strict = is_strict(request.schema)
        body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": request.schema, "strict": strict}}
    if request.parameters:
        body["extra_body"] = request.parameters
    cleaned: dict[str, Any] = clean(body)
    return cleaned


def _items(message: Message) -> list[dict[str, Any]]:
    """A message as input items: the provider's own, or made from its plain fields."""
    if message.wire_format == WIRE and message.wire:
        return list(message.wire)
    if message.role == "tool":
        return [
            {"type": "function_call_output", "call_id": result.call_id, "output": result.text}
            for result in message.tool_results
        ]
    kind = "output_text" if message.role == "assistant" else "input_text"
    role = "developer" if message.role == "system" else message.role
    items: list[dict[str, Any]] = []
    if message.text or not message.tool_calls:
        items.append({"type": "message", "role": role, "content": [{"type": kind, "text": message.text}]})
    for call in message.tool_calls:
        items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments})
    return items


class Reading:
    """One answer, event by event."""

    def __init__(self, endpoint: Endpoint, wanted: str, on_delta: OnDelta) -> None:
        self._endpoint = endpoint
        self._wanted = wanted
        self._on_delta = on_delta
        self.progress = Progress()
        self._items: list[dict[str, Any]] = []
        self._summary_parts = 0
        self._response: dict[str, Any] = {}
        self._is_complete = False

    def take(self, event: dict[str, Any]) -> None:
        """One event. Raises `ModelError` for one that says that the answer failed."""
        kind = str(event.get("type", ""))
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._say("text", event)
        elif kind == "response.reasoning_summary_text.delta":
            self._say("summary", event)
        elif kind == "response.reasoning_summary_part.added":
            self._summary_parts += 1
            if self._summary_parts > 1:
                self._on_delta("summary", "\n\n")
        elif kind == "response.output_item.done" and isinstance(event.get("item"), dict):
            # Only here an item is whole: the encrypted content of `output_item.added` may be a beginning of it.
            self.progress.had_output = True
            self._items.append(event["item"])
        elif kind == "error":
            raise self._failed(event.get("error") or event)
        elif kind.startswith("response.") and isinstance(event.get("response"), dict):
            self._take_response(kind, event["response"])

    def _say(self, kind: Any, event: dict[str, Any]) -> None:
        self.progress.had_output = True
        self._on_delta(kind, str(event.get("delta", "")))

    def _take_response(self, kind: str, response: dict[str, Any]) -> None:
        self._response = response
        self.progress.usage = read_usage(response.get("usage")) or self.progress.usage
        check_model(self._endpoint, self._wanted, str(response.get("model") or ""))
        if kind == "response.failed":
            raise self._failed(response.get("error"))
        if kind == "response.incomplete":
            reason = str(as_object(response.get("incomplete_details")).get("reason") or "")
            progress = self.progress
            raise failures.incomplete(
                self._endpoint.backend, reason, had_output=progress.had_output, usage=progress.usage
            )
        if kind == "response.completed":
            self._is_complete = True

    def _failed(self, error: Any) -> ModelError:
        progress = self.progress
        return failures.from_event(
            self._endpoint.backend,
            error,
            secrets=self._endpoint.secrets,
            had_output=progress.had_output,
            usage=progress.usage,
        )

    def turn(self) -> ModelTurn:
        """The whole answer. Raises `ModelError` when its end did not come."""
        progress = self.progress
        if not self._is_complete:
            why = "the stream ended early"
            raise failures.cut(self._endpoint.backend, why, had_output=progress.had_output, usage=progress.usage)
        items = self._items or as_objects(self._response.get("output"))
        calls = tuple(
            ToolCall(str(item.get("call_id", "")), str(item.get("name", "")), str(item.get("arguments") or "{}"))
            for item in items
            if item.get("type") == "function_call"
        )
        refusal = _parts(items, "message", "content", "refusal", "refusal")
        text = _parts(items, "message", "content", "output_text", "text")
        stop: StopReason = "tool_calls" if calls else "refused" if refusal else "end"
        summary = _parts(items, "reasoning", "summary", "summary_text", "text", "\n\n")
        message = Message(
            "assistant",
            text=text or refusal,
            tool_calls=calls,
            summary=summary,
            wire_format=WIRE,
            wire=tuple(items),
        )
        reported = str(self._response.get("model") or "")
        return ModelTurn(message, stop, progress.usage, reported, str(self._response.get("id") or ""))


def _parts(items: list[dict[str, Any]], item: str, place: str, part: str, key: str, between: str = "") -> str:
    """The texts of all parts of one kind in all items of one kind."""
    return between.join(
        str(each.get(key, ""))
        for found in items
        if found.get("type") == item
        for each in as_objects(found.get(place))
        if each.get("type") == part
    )


def read_usage(usage: Any) -> Usage | None:
    """The counters as they were reported; the cached ones are part of the input ones."""
    if not isinstance(usage, dict):
        return None
    inputs, outputs = as_object(usage.get("input_tokens_details")), as_object(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        total_tokens=as_count(usage.get("total_tokens")),
        cache_read_tokens=as_count(inputs.get("cached_tokens")),
        cache_write_tokens=as_count(inputs.get("cache_write_tokens")),
        reasoning_tokens=as_count(outputs.get("reasoning_tokens")),
    )
