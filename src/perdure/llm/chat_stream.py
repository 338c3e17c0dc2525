"""One streamed answer of Chat Completions, chunk by chunk, from servers that keep to the format more or less."""

from __future__ import annotations

import os
from typing import Any

from perdure.llm import failures
from perdure.llm.protocol import Message, ModelTurn, OnDelta, StopReason, ToolCall, Usage
from perdure.llm.sse import ServerEvent
from perdure.llm.text import as_count, as_object, as_objects, parse_object
from perdure.llm.transport import Endpoint, Progress

WIRE = "openai.chat"
_CUT = ("length", "max_tokens", "content_filter")


class Reading:
    """What has come of an answer."""

    def __init__(self, endpoint: Endpoint, on_delta: OnDelta) -> None:
        self._endpoint = endpoint
        self._on_delta = on_delta
        self.progress = Progress()
        self._text = ""
        self._reasoning = ""
        self._reasoning_key = "reasoning_content"
        self._details: list[Any] = []
        self._refusal = ""
        self._calls: list[dict[str, Any]] = []
        self._finish = ""
        self._model = ""
        self._id = ""
        self._is_complete = False

    def take(self, event: ServerEvent) -> None:
        """One event. Raises `ModelError` for one that says that the answer failed."""
        if event.data.strip() == "[DONE]":
            self._is_complete = True
        elif event.data:
            self._take_chunk(parse_object(event.data), event.name == "error")

    def take_whole(self, body: dict[str, Any]) -> None:
        """The answer of a server that does not stream."""
        self._take_chunk(body, is_error=False)
        self._is_complete = True

    def _take_chunk(self, chunk: dict[str, Any], is_error: bool) -> None:
        if is_error or chunk.get("error"):
            progress = self.progress
            raise failures.from_event(
                self._endpoint.backend,
                chunk.get("error") or chunk,
                secrets=self._endpoint.secrets,
                had_output=progress.had_output,
                usage=progress.usage,
            )
        self._model = str(chunk.get("model") or self._model)
        self._id = str(chunk.get("id") or self._id)
        self.progress.usage = read_usage(chunk.get("usage")) or self.progress.usage
        for choice in as_objects(chunk.get("choices")):
            self._take_delta(as_object(choice.get("delta") or choice.get("message")))
            self._finish = str(choice.get("finish_reason") or self._finish)

    def _take_delta(self, delta: dict[str, Any]) -> None:
        for key in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(key), str) and delta[key]:
                self._reasoning_key = key
                self._reasoning += delta[key]
                self._say("summary", delta[key])
                break
        if isinstance(delta.get("reasoning_details"), list):
            self._details += delta["reasoning_details"]
        if isinstance(delta.get("content"), str) and delta["content"]:
            self._text += delta["content"]
            self._say("text", delta["content"])
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            self._refusal += delta["refusal"]
            self._say("text", delta["refusal"])
        for each in as_objects(delta.get("tool_calls")):
            self._take_call(each)

    def _say(self, kind: Any, text: str) -> None:
        self.progress.had_output = True
        self._on_delta(kind, text)

    def _take_call(self, delta: dict[str, Any]) -> None:
        """A piece of a tool call. Some servers leave the index out, some give every call the index 0."""
        self.progress.had_output = True
        function = as_object(delta.get("function"))
        call = self._find_call(delta.get("index"), str(delta.get("id") or ""), str(function.get("name") or ""))
        call["name"] = call["name"] or str(function.get("name") or "")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call["arguments"] += arguments
        elif arguments is not None:
            import json

            call["arguments"] = json.dumps(arguments, ensure_ascii=False)

    def _find_call(self, index: Any, given: str, name: str) -> dict[str, Any]:
        known = [call for call in self._calls if index is None or call["index"] == index]
        call = known[-1] if known else None
        begins = call is None or (bool(given) and given != call["id"]) or (index is None and not given and bool(name))
        if begins or call is None:
            # A call without an id gets one, as its result must name it.
            call = {"index": index, "id": given or f"call_{os.urandom(8).hex()}", "name": "", "arguments": ""}
            self._calls.append(call)
        return call

    def turn(self) -> ModelTurn:
        """The whole answer. Raises `ModelError` when its end did not come, or when the server cut it."""
        progress = self.progress
        if self._finish in _CUT:
            raise failures.incomplete(
                self._endpoint.backend, self._finish, had_output=progress.had_output, usage=progress.usage
            )
        if not self._finish and not (self._is_complete and progress.had_output):
            why = "the stream ended early"
            raise failures.cut(self._endpoint.backend, why, had_output=progress.had_output, usage=progress.usage)
        calls = tuple(ToolCall(call["id"], call["name"], call["arguments"] or "{}") for call in self._calls)
        message = Message(
            "assistant",
            text=self._text or self._refusal,
            tool_calls=calls,
            summary=self._reasoning,
            wire_format=WIRE,
            wire=(self._wire(calls),),
        )
        return ModelTurn(message, self._stop(bool(calls)), progress.usage, self._model, self._id)

    def _stop(self, has_calls: bool) -> StopReason:
        if has_calls:
            return "tool_calls"
        if self._refusal:
            return "refused"
        return "end" if self._finish in ("", "stop", "eos", "end_turn") else "other"

    def _wire(self, calls: tuple[ToolCall, ...]) -> dict[str, Any]:
        """The message as it is sent again. Reasoning goes back only with the calls that it led to, as servers refuse it elsewhere."""
        wire: dict[str, Any] = {"role": "assistant", "content": self._text or self._refusal or None}
        if calls:
            wire["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
            if self._reasoning:
                wire[self._reasoning_key] = self._reasoning
        else:
            wire["content"] = self._text or self._refusal
        if self._details:
            wire["reasoning_details"] = self._details
        return wire


def read_usage(usage: Any) -> Usage | None:
    """The counters as they were reported; the cached ones are part of the input ones."""
    if not isinstance(usage, dict):
        return None
    inputs, outputs = as_object(usage.get("prompt_tokens_details")), as_object(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        total_tokens=as_count(usage.get("total_tokens")),
        cache_read_tokens=as_count(inputs.get("cached_tokens")),
        cache_write_tokens=as_count(inputs.get("cache_write_tokens")),
        reasoning_tokens=as_count(outputs.get("reasoning_tokens")),
    )
