"""One streamed answer of the Messages API, event by event."""

from __future__ import annotations

from typing import Any

from perdure.llm import failures
from perdure.llm.protocol import DeltaKind, Message, ModelTurn, OnDelta, StopReason, ToolCall, Usage
from perdure.llm.text import NotWhole, as_count, as_object, as_objects, parse_object
from perdure.llm.transport import Endpoint, Progress, check_model

WIRE = "anthropic.messages"
_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "refusal": "refused",
}
_CUT = ("max_tokens", "model_context_window_exceeded")
_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_HEARD: dict[str, DeltaKind] = {"text_delta": "text", "thinking_delta": "summary"}
_COUNTERS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}


class Reading:
    """What has come of an answer. Blocks grow by their deltas until they are as the provider wants them back."""

    def __init__(self, endpoint: Endpoint, wanted: str, on_delta: OnDelta) -> None:
        self._endpoint = endpoint
        self._wanted = wanted
        self._on_delta = on_delta
        self.progress = Progress()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, str] = {}
        self._counted: dict[str, int] = {}
        self._model = ""
        self._id = ""
        self._stop = ""
        self._is_complete = False

    def take(self, event: dict[str, Any]) -> None:
        """One event. Raises `ModelError` for one that says that the answer failed."""
        kind = str(event.get("type", ""))
        if kind == "content_block_delta":
            self._grow(as_count(event.get("index")) or 0, as_object(event.get("delta")))
        elif kind == "content_block_start":
            self.progress.had_output = True
            self._blocks[as_count(event.get("index")) or 0] = dict(as_object(event.get("content_block")))
        elif kind == "message_start":
            self._begin(as_object(event.get("message")))
        elif kind == "message_delta":
            self._count(event.get("usage"))
            self._stop = str(as_object(event.get("delta")).get("stop_reason") or self._stop)
        elif kind == "message_stop":
            self._is_complete = True
        elif kind == "error":
            progress = self.progress
            raise failures.from_event(
                self._endpoint.backend,
                event.get("error"),
                secrets=self._endpoint.secrets,
                had_output=progress.had_output,
                usage=progress.usage,
            )

    def _begin(self, message: dict[str, Any]) -> None:
        self._model = str(message.get("model") or "")
        self._id = str(message.get("id") or "")
        self._count(message.get("usage"))
        check_model(self._endpoint, self._wanted, self._model)

    def _count(self, usage: Any) -> None:
        """Counters are totals so far: what comes later replaces what came before."""
        if isinstance(usage, dict):
            self._counted |= {key: value for key, value in usage.items() if as_count(value) is not None}
            named = {ours: self._counted.get(theirs) for ours, theirs in _COUNTERS.items()}
            self.progress.usage = Usage(**named)

    def _grow(self, index: int, delta: dict[str, Any]) -> None:
        self.progress.had_output = True
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = str(delta.get("type", ""))
        if kind in _GROWING:
            key = _GROWING[kind]
            piece = str(delta.get(key, ""))
            block[key] = str(block.get(key) or "") + piece
            if kind in _HEARD:
                self._on_delta(_HEARD[kind], piece)
        elif kind == "input_json_delta":
            self._arguments[index] = self._arguments.get(index, "") + str(delta.get("partial_json", ""))
        elif kind == "citations_delta":
            block["citations"] = [*as_objects(block.get("citations")), delta.get("citation")]

    def turn(self) -> ModelTurn:
        """The whole answer. Raises `ModelError` when its end did not come, or when the provider cut it."""
        progress = self.progress
        if not self._is_complete:
            why = "the stream ended early"
            raise failures.cut(self._endpoint.backend, why, had_output=progress.had_output, usage=progress.usage)
        if self._stop in _CUT:
            raise failures.incomplete(
                self._endpoint.backend, self._stop, had_output=progress.had_output, usage=progress.usage
            )
        blocks, calls = [], []
        for index, block in sorted(self._blocks.items()):
            if block.get("type") == "tool_use":
                written = self._arguments.get(index, "")
                calls.append(_call(block, written))
                block["input"] = _input(block, written)
            blocks.append(block)
        message = Message(
            "assistant",
            text="".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text"),
            tool_calls=tuple(calls),
            summary="\n\n".join(str(block.get("thinking", "")) for block in blocks if block.get("type") == "thinking"),
            wire_format=WIRE,
            wire=tuple(blocks),
        )
        return ModelTurn(message, _STOPS.get(self._stop, "other"), progress.usage, self._model, self._id)


def _call(block: dict[str, Any], written: str) -> ToolCall:
    """The call with its arguments as the model wrote them."""
    if not written.strip():
        import json

        written = json.dumps(block.get("input") or {}, ensure_ascii=False)
    return ToolCall(str(block.get("id", "")), str(block.get("name", "")), written)


def _input(block: dict[str, Any], written: str) -> dict[str, Any]:
    """The arguments as an object, which is how they must be replayed."""
    if not written.strip():
        return dict(as_object(block.get("input")))
    try:
        return parse_object(written)
    except NotWhole:
        return {}
