"""The Chat Completions wire of the fake: what it refuses, and how it streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from perdure.testing.providers.responses import Event, pieces
from perdure.testing.providers.script import Reply
from perdure.testing.providers.seals import call_id, require


def check(body: dict[str, Any]) -> None:
    """Raises `Wrong` for what servers refuse."""
    messages = body.get("messages")
    require(isinstance(messages, list) and messages, "messages: at least one is required")
    require(body.get("stream") is True, "Only streams are served.")
    wanted: list[str] = []
    for message in messages or ():
        role = message.get("role")
        if role == "tool":
            identity = str(message.get("tool_call_id"))
            require(
                identity in wanted,
                "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
            )
            require(isinstance(message.get("content"), (str, list)), "content of a tool message must be a text.")
            wanted.remove(identity)
            continue
        require(not wanted, f"tool_call_ids did not have response messages: {', '.join(wanted)}")
        require(role in ("system", "developer", "user", "assistant"), f"unknown role {role!r}")
        calls = message.get("tool_calls") or []
        require(calls or message.get("content") is not None, "content must be a text.")
        wanted = [str(call.get("id")) for call in calls]
        for call in calls:
            require(isinstance((call.get("function") or {}).get("arguments"), str), "arguments must be a text.")
    require(not wanted, f"tool_call_ids did not have response messages: {', '.join(wanted)}")


def turns(body: dict[str, Any]) -> tuple[int, str]:
    """How many turns of the model the conversation holds, and the first user's text."""
    messages = body.get("messages") or []
    count = sum(1 for message in messages if message.get("role") == "assistant")
    return count, next((str(each.get("content")) for each in messages if each.get("role") == "user"), "")


def events(reply: Reply, model: str, number: int) -> Iterator[Event]:
    """The answer as most servers stream it."""
    base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.reasoning or ""):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(reply.text):
        yield chunk({"refusal" if reply.fault == "refused" else "content": piece})
    for place, call in enumerate(reply.tool_calls):
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        identity = call.id or call_id("call", number, place)
        begun = {"index": place, "id": identity, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for piece in pieces(text):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    if reply.fault == "failed":
        yield "", {"error": reply.error or {"type": "server_error", "message": "The server had an error."}}
        return
    finish = {"incomplete": "length", "filtered": "content_filter"}.get(
        reply.fault, "tool_calls" if reply.tool_calls else "stop"
    )
    yield chunk({}, finish)
    if reply.usage is not None:
        yield "", {**base, "choices": [], "usage": _usage(reply.usage)}
    yield "", "[DONE]"


def _usage(usage: dict[str, int]) -> dict[str, Any]:
    given, made = usage.get("input", 0), usage.get("output", 0)
    found: dict[str, Any] = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    if "cache_read" in usage:
        found["prompt_tokens_details"] = {"cached_tokens": usage["cache_read"]}
    if "reasoning" in usage:
        found["completion_tokens_details"] = {"reasoning_tokens": usage["reasoning"]}
    return found
