"""The backend `openai-compatible`: Chat Completions at any base URL, with what real servers leave out.

Spoken by vLLM, Ollama, llama.cpp, LM Studio, OpenRouter and most gateways. They name models as they like, so the reported model is
recorded and not compared.
"""

from __future__ import annotations

from typing import Any

from perdure.llm.chat_stream import WIRE, Reading
from perdure.llm.protocol import Message, ModelInfo, ModelRequest, ModelTurn, OnDelta
from perdure.llm.schemas import is_strict
from perdure.llm.sse import events
from perdure.llm.text import as_objects, clean, parse_object
from perdure.llm.transport import Endpoint, Progress, check_content, error_body, explained, new_client, status_error


class ChatModel:
    """Any server that speaks Chat Completions."""

    wire_format = WIRE

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.backend
        self._endpoint = endpoint
        self._url = endpoint.base_url.rstrip("/")
        self._client = new_client(endpoint)
        self._client.headers["User-Agent"] = "perdure"
        if endpoint.key:
            self._client.headers["Authorization"] = f"Bearer {endpoint.key}"

    async def turn(self, request: ModelRequest, on_delta: OnDelta) -> ModelTurn:
        """One turn. Raises `ModelError`, also for an answer that was cut at its limit."""
        reading = Reading(self._endpoint, on_delta)
        body = request_body(request)
        headers = {"Accept": "text/event-stream"}
        async with explained(self._endpoint, reading.progress):
            sent = self._client.stream("POST", f"{self._url}/chat/completions", json=body, headers=headers)
            async with sent as response:
                if not response.is_success:
                    found = await error_body(response)
                    raise status_error(self._endpoint, response.status_code, response.headers, found)
                check_content(self._endpoint, response.headers)
                if response.headers.get("content-type", "").startswith("application/json"):
                    reading.take_whole(parse_object((await response.aread()).decode("utf-8", "replace")))
                else:
                    async for event in events(response.aiter_bytes()):
                        reading.take(event)
        return reading.turn()

    async def models(self) -> list[ModelInfo]:
        """What the server offers, in its order."""
        async with explained(self._endpoint, Progress()):
            response = await self._client.get(f"{self._url}/models")
            if not response.is_success:
                raise status_error(self._endpoint, response.status_code, response.headers, response.content)
            check_content(self._endpoint, response.headers)
            found = parse_object(response.content.decode("utf-8", "replace"))
        return [_info(row) for row in as_objects(found.get("data") or found.get("models"))]

    async def close(self) -> None:
        await self._client.aclose()


def _info(row: dict[str, Any]) -> ModelInfo:
    slug = str(row.get("id") or row.get("name") or "")
    windows = [row.get(key) for key in ("context_length", "max_model_len", "context_window")]
    window = next((each for each in windows if isinstance(each, int)), None)
    return ModelInfo(slug, str(row.get("display_name") or row.get("name") or slug), window)


def request_body(request: ModelRequest) -> dict[str, Any]:
    """What is sent."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [each for message in request.messages for each in _messages(message)],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
        body["parallel_tool_calls"] = False
    if request.reasoning_effort:
        body["reasoning_effort"] = request.reasoning_effort
    if request.max_output_tokens is not None:
        body["max_tokens"] = request.max_output_tokens
    if request.schema is not None:
        described = {"name": "answer", "schema": request.schema, "strict": is_strict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": described}
    cleaned: dict[str, Any] = clean({**body, **request.parameters})
    return cleaned


def _messages(message: Message) -> list[dict[str, Any]]:
    if message.wire_format == WIRE and message.wire:
        return list(message.wire)
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": result.call_id, "content": result.text} for result in message.tool_results
        ]
    made: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        made["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return [made]
