"""What a provider sends may have any form; it makes an answer or an error that can be explained, never a defect."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.llm import anthropic_stream, chat_stream, openai
from perdure.llm.protocol import ModelError
from perdure.llm.transport import Endpoint

_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
_ANY = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def _objects(words: dict[str, tuple[str, ...]], depth: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose keys the wire knows, with values that it may know or not."""
    inner: st.SearchStrategy[Any] = _ANY
    for _ in range(depth):
        fields = {key: st.sampled_from(values) | inner if values else inner for key, values in words.items()}
        known = st.fixed_dictionaries({}, optional=fields)
        inner = known | st.lists(known, max_size=2) | _ANY
    return known


_RESPONSES = _objects(
    {
        "type": (
            "response.output_item.done", "response.output_text.delta", "response.completed", "response.incomplete", "response.failed",
            "error", "message", "function_call", "reasoning", "output_text", "refusal",
        ),
        "item": (), "response": (), "error": (), "content": (), "summary": (), "usage": (), "output": (), "delta": ("text",),
        "model": ("m",), "incomplete_details": (), "input_tokens_details": (), "code": ("rate_limit_exceeded",),
    }
)  # fmt: skip
_MESSAGES = _objects(
    {
        "type": (
            "message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "error", "text_delta",
            "thinking_delta", "input_json_delta", "signature_delta", "citations_delta", "tool_use", "text", "thinking",
        ),
        "message": (), "content_block": (), "delta": (), "usage": (), "index": (), "error": (), "input": (), "citations": (),
        "partial_json": ("{",), "stop_reason": ("end_turn", "max_tokens"), "model": ("m",), "text": ("a",),
    }
)  # fmt: skip
_CHUNKS = _objects(
    {
        "choices": (), "delta": (), "message": (), "tool_calls": (), "function": (), "usage": (), "error": (), "index": (),
        "id": ("a",), "name": ("read",), "arguments": ("{",), "content": ("a",), "finish_reason": ("stop", "length"),
        "reasoning_details": (), "prompt_tokens_details": (), "model": ("m",),
    }
)  # fmt: skip


def _feed(take: Callable[[dict[str, Any]], None], turn: Callable[[], object], events: list[dict[str, Any]]) -> None:
    with suppress(ModelError):
        for event in events:
            take(event)
        turn()


@given(st.lists(_RESPONSES, max_size=4))
def test_responses(events: list[dict[str, Any]]) -> None:
    reading = openai.Reading(Endpoint("openai"), "m", lambda *_: None)
    _feed(reading.take, reading.turn, [*events, {"type": "response.completed", "response": {}}])


@given(st.lists(_MESSAGES, max_size=4))
def test_messages(events: list[dict[str, Any]]) -> None:
    reading = anthropic_stream.Reading(Endpoint("anthropic"), "m", lambda *_: None)
    _feed(reading.take, reading.turn, [*events, {"type": "message_stop"}])


@given(st.lists(_CHUNKS, max_size=4))
def test_chunks(events: list[dict[str, Any]]) -> None:
    reading = chat_stream.Reading(Endpoint("openai-compatible"), lambda *_: None)
    _feed(reading.take_whole, reading.turn, events)


def test_parts_of_what_a_responses_server_leaves_out() -> None:
    """Some send no items one by one, only all of them at the end."""
    output = [{"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}]
    reading = openai.Reading(Endpoint("openai"), "m", lambda *_: None)
    reading.take({"type": "response.completed", "response": {"model": "m", "output": output}})

    assert reading.turn().message.text == "Yes."


def test_an_answer_whose_end_did_not_come_is_cut() -> None:
    reading = openai.Reading(Endpoint("openai"), "m", lambda *_: None)

    with pytest.raises(ModelError, match="ended early"):
        reading.turn()
