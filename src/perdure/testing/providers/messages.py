"""The Anthropic Messages wire of the fake: what it refuses, and how it streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from perdure.testing.providers.responses import Event, pieces
from perdure.testing.providers.script import Reply
from perdure.testing.providers.seals import call_id, reasoning_of, require, seal

_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MOST_CACHE_MARKS = 4
# What a block is announced with; the rest comes in pieces.
_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def check(body: dict[str, Any]) -> None:
    """Raises `Wrong` for what the real API refuses."""
    limit = body.get("max_tokens")
    require(isinstance(limit, int) and limit > 0, "max_tokens: Field required")
    require(body.get("stream") is True, "Only streams are served.")
    messages = body.get("messages")
    require(isinstance(messages, list) and messages, "messages: at least one message is required")
    assert isinstance(messages, list)
    require(messages[0].get("role") == "user", "messages: first message must use the user role")
    marks = len(re.findall(r'"cache_control"', json.dumps([body.get("system"), body.get("tools"), messages])))
    require(marks <= _MOST_CACHE_MARKS, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    if body.get("tools"):
        choice = body.get("tool_choice") or {}
        require(choice.get("disable_parallel_tool_use") is True, "tool_choice must disable parallel tool use.")
    is_thinking = (body.get("thinking") or {}).get("type") in ("adaptive", "enabled")
    wanted: list[str] = []
    for place, message in enumerate(messages):
        blocks = _blocks(message, place)
        require(place == 0 or message["role"] != messages[place - 1]["role"], "roles must alternate")
        wanted = _check_pairs(message["role"], blocks, wanted, place)
        for index, block in enumerate(blocks):
            _check_block(block, f"messages.{place}.content.{index}", blocks[:index], is_thinking)
    require(not wanted, _unanswered(len(messages), wanted))


def _blocks(message: dict[str, Any], place: int) -> list[dict[str, Any]]:
    content = message.get("content")
    require(message.get("role") in ("user", "assistant"), f"messages.{place}.role: unexpected {message.get('role')!r}")
    require(content, f"messages.{place}: all messages must have non-empty content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _check_pairs(role: str, blocks: list[dict[str, Any]], wanted: list[str], place: int) -> list[str]:
    """The calls that the next message must answer."""
    if role == "assistant":
        require(not wanted, _unanswered(place, wanted))
        uses = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        require(len(set(uses)) == len(uses), "tool_use ids must be unique")
        return uses
    results = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
    for identity in results:
        require(
            identity in wanted,
            f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {identity}. Each `tool_result` "
            "block must have a corresponding `tool_use` block in the previous message.",
        )
    missing = [identity for identity in wanted if identity not in results]
    require(not missing, _unanswered(place, missing))
    require(len(results) == len(set(results)), "each tool_use must have a single result")
    kinds = [block.get("type") for block in blocks]
    require(kinds[: len(results)] == ["tool_result"] * len(results), "tool_result blocks must come first")
    return []


def _unanswered(place: int, wanted: list[str]) -> str:
    return f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(wanted)}."


def _check_block(block: dict[str, Any], where: str, before: list[dict[str, Any]], is_thinking: bool) -> None:
    kind = block.get("type")
    if kind == "text":
        require(str(block.get("text", "")).strip(), f"{where}: text content blocks must contain non-whitespace text")
    elif kind == "thinking":
        signature = block.get("signature")
        require(signature, f"{where}.signature: Field required")
        require(signature == seal(str(block.get("thinking"))), f"{where}: Invalid `signature` in `thinking` block")
        require("cache_control" not in block, f"{where}.cache_control: thinking blocks cannot be marked")
    elif kind == "redacted_thinking":
        require(block.get("data") == seal("redacted"), f"{where}: Invalid `data` in `redacted_thinking` block")
    elif kind == "tool_use":
        identity = str(block.get("id"))
        require(isinstance(block.get("input"), dict), f"{where}.tool_use.input: Input should be a valid dictionary")
        require(_TOOL_ID.fullmatch(identity), f"{where}.tool_use.id: String should match pattern")
        has_thinking = any(each.get("type") == "thinking" for each in before)
        require(
            not (is_thinking and reasoning_of(identity)) or has_thinking,
            f"{where}: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final "
            "`assistant` message must start with a thinking block.",
        )
    else:
        require(kind in ("tool_result", "image", "document"), f"{where}: unexpected block {kind!r}")


def turns(body: dict[str, Any]) -> tuple[int, str]:
    """How many turns of the model the conversation holds, and the first user's text."""
    messages = body.get("messages") or []
    count = sum(1 for message in messages if message.get("role") == "assistant")
    first: dict[str, Any] = next((message for message in messages if message.get("role") == "user"), {})
    content = first.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(block.get("text", "")) for block in content)
    return count, str(content)


def events(reply: Reply, model: str, number: int) -> Iterator[Event]:
    """The answer as the real API streams it."""
    usage = {"usage": _usage(reply.usage)} if reply.usage is not None else {}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": []}
    yield _event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, **usage})
    yield _event("ping")
    for index, block in enumerate(_answer(reply, number)):
        yield from _block_events(index, block)
    if reply.fault == "failed":
        yield _event("error", error=reply.error or {"type": "overloaded_error", "message": "Overloaded"})
        return
    stop = {"incomplete": "max_tokens", "filtered": "refusal", "refused": "refusal"}.get(
        reply.fault, "tool_use" if reply.tool_calls else "end_turn"
    )
    counted = {"usage": {"output_tokens": reply.usage.get("output", 0)}} if reply.usage is not None else {}
    yield _event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, **counted)
    yield _event("message_stop")


def _answer(reply: Reply, number: int) -> Iterator[dict[str, Any]]:
    thinking = "thinking" if reply.reasoning is not None else ""
    if thinking:
        yield {"type": "thinking", "thinking": reply.reasoning, "signature": seal(str(reply.reasoning))}
        yield {"type": "redacted_thinking", "data": seal("redacted")}
    if reply.text:
        yield {"type": "text", "text": reply.text}
    for place, call in enumerate(reply.tool_calls):
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        identity = call.id or call_id("toolu", number, place, thinking)
        yield {"type": "tool_use", "id": identity, "name": call.name, "input": text}


def _block_events(index: int, block: dict[str, Any]) -> Iterator[Event]:
    kind = block["type"]
    yield _event("content_block_start", index=index, content_block={**block, **_EMPTY.get(kind, {})})
    deltas: list[tuple[str, str, str]] = []
    if kind == "text":
        deltas = [("text_delta", "text", piece) for piece in pieces(block["text"])]
    elif kind == "thinking":
        deltas = [("thinking_delta", "thinking", piece) for piece in pieces(block["thinking"])]
        deltas.append(("signature_delta", "signature", block["signature"]))
    elif kind == "tool_use":
        deltas = [("input_json_delta", "partial_json", piece) for piece in ("", *pieces(block["input"]))]
    for name, key, piece in deltas:
        yield _event("content_block_delta", index=index, delta={"type": name, key: piece})
    yield _event("content_block_stop", index=index)


def _event(name: str, **fields: Any) -> Event:
    return name, {"type": name, **fields}


def _usage(usage: dict[str, int]) -> dict[str, int]:
    found = {"input_tokens": usage.get("input", 0), "output_tokens": 1}
    if "cache_read" in usage:
        found["cache_read_input_tokens"] = usage["cache_read"]
    if "cache_write" in usage:
        found["cache_creation_input_tokens"] = usage["cache_write"]
    return found
