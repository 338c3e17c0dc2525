"""The OpenAI Responses wire of the fake: what it refuses, and how it streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from perdure.testing.providers.script import Reply
from perdure.testing.providers.seals import Wrong, call_id, reasoning_of, require, seal

Event = tuple[str, dict[str, Any] | str]


def check(body: dict[str, Any]) -> None:
    """Raises `Wrong` for what the real API refuses, and for what an agent that stores nothing there must not do."""
    require(isinstance(body.get("input"), list) and body["input"], "input must be a list of items, not empty.")
    require(body.get("stream") is True, "Only streams are served.")
    require(body.get("store") is False, "store must be false: nothing may be kept at the provider.")
    require(
        "reasoning.encrypted_content" in (body.get("include") or ()), "include must ask for the encrypted reasoning."
    )
    require(not body.get("tools") or body.get("parallel_tool_calls") is False, "parallel_tool_calls must be false.")
    _check_items(body["input"])


def _check_items(items: list[dict[str, Any]]) -> None:
    calls: dict[str, bool] = {}
    reasonings: set[str] = set()
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            _check_call(item, calls, reasonings)
        elif kind == "function_call_output":
            identity = item.get("call_id")
            require(identity in calls, f"No tool call found for function call output with call_id {identity}.")
            require(not calls[str(identity)], f"Two outputs for function call {identity}.")
            require(isinstance(item.get("output"), (str, list)), "output must be a text or parts.")
            calls[str(identity)] = True
        elif kind == "reasoning":
            _check_reasoning(item, items[place + 1 : place + 2])
            reasonings.add(str(item.get("id")))
        elif kind == "message":
            _check_message(item)
            open_calls = [identity for identity, is_answered in calls.items() if not is_answered]
            require(
                item.get("role") == "assistant" or not open_calls,
                f"No tool output found for function call {', '.join(open_calls)}.",
            )
    missing = [identity for identity, is_answered in calls.items() if not is_answered]
    require(not missing, f"No tool output found for function call {', '.join(missing)}.")


def _check_call(item: dict[str, Any], calls: dict[str, bool], reasonings: set[str]) -> None:
    identity = str(item.get("call_id"))
    require(isinstance(item.get("arguments"), str), "arguments must be a text.")
    require(identity not in calls, f"Duplicate call_id {identity}.")
    led = reasoning_of(identity)
    require(
        not led or led in reasonings,
        f"Item '{item.get('id')}' of type 'function_call' was provided without its required 'reasoning' item: '{led}'.",
    )
    calls[identity] = False


def _check_reasoning(item: dict[str, Any], following: list[dict[str, Any]]) -> None:
    identity = str(item.get("id"))
    require(
        item.get("encrypted_content"), f"Item with id '{identity}' not found: items are not stored, send their content."
    )
    if item["encrypted_content"] != seal(identity):
        raise Wrong(
            f"The encrypted content of item {identity} could not be verified.", kind="invalid_encrypted_content"
        )
    require(
        following and following[0].get("type") in ("function_call", "message", "reasoning"),
        f"Item '{identity}' of type 'reasoning' was provided without its required following item.",
    )


def _check_message(item: dict[str, Any]) -> None:
    require(item.get("role") in ("user", "assistant", "system", "developer"), f"Unknown role {item.get('role')!r}.")
    parts = item.get("content")
    wanted = ("output_text", "refusal") if item["role"] == "assistant" else ("input_text", "input_image", "input_file")
    if isinstance(parts, list):
        for part in parts:
            require(part.get("type") in wanted, f"Invalid value: '{part.get('type')}' in a message of {item['role']}.")
    else:
        require(isinstance(parts, str), "content must be a text or a list of parts.")


def turns(body: dict[str, Any]) -> tuple[int, str]:
    """How many turns of the model the conversation holds, and the first user's text."""
    count, first, before = 0, "", ""
    for item in body.get("input") or ():
        kind = item.get("type", "message")
        is_models = kind in ("function_call", "reasoning") or item.get("role") == "assistant"
        count += is_models and before != "model"
        before = "model" if is_models else "other"
        if not first and item.get("role") == "user":
            content = item.get("content") or ""
            first = content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)
    return count, first


def events(reply: Reply, model: str, number: int) -> Iterator[Event]:
    """The answer as the real API streams it."""
    response: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": False,
        "tools": [],
        "tool_choice": "auto",
    }
    for sequence, (name, event) in enumerate(_events(reply, response, number)):
        yield name, {"type": name, "sequence_number": sequence, **event}


def _events(reply: Reply, response: dict[str, Any], number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": dict(response)}
    yield "response.in_progress", {"response": dict(response)}
    output: list[dict[str, Any]] = []
    for index, item in enumerate(_items(reply, number)):
        yield "response.output_item.added", {"output_index": index, "item": _begun(item)}
        yield from _deltas(item, index)
        yield "response.output_item.done", {"output_index": index, "item": item}
        output.append(item)
    if reply.fault == "failed":
        error = reply.error or {"code": "server_error", "message": "The server had an error."}
        yield "response.failed", {"response": {**response, "status": "failed", "error": error, "output": output}}
        return
    usage = {"usage": _usage(reply.usage)} if reply.usage is not None else {}
    if reply.fault in ("incomplete", "filtered"):
        reason = "max_output_tokens" if reply.fault == "incomplete" else "content_filter"
        ended = {"status": "incomplete", "incomplete_details": {"reason": reason}}
        yield "response.incomplete", {"response": {**response, **ended, "output": output, **usage}}
        return
    yield "response.completed", {"response": {**response, "status": "completed", "output": output, **usage}}


def _items(reply: Reply, number: int) -> Iterator[dict[str, Any]]:
    reasoning = f"rs_{number}" if reply.reasoning is not None else ""
    if reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}] if reply.reasoning else []
        # A field that no client knows yet must come back too.
        yield {
            "id": reasoning,
            "type": "reasoning",
            "summary": summary,
            "encrypted_content": seal(reasoning),
            "future_field": {"kept": True},
        }
    if reply.text or not reply.tool_calls:
        kind, key = ("refusal", "refusal") if reply.fault == "refused" else ("output_text", "text")
        part: dict[str, Any] = {"type": kind, key: reply.text}
        if kind == "output_text":
            part |= {"annotations": [], "logprobs": []}
        yield {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    for place, call in enumerate(reply.tool_calls):
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        yield {
            "id": f"fc_{number}_{place}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id or call_id("call", number, place, reasoning),
            "name": call.name,
            "arguments": text,
        }


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it is announced: what it will hold is not there, or is not the last word."""
    if item["type"] == "reasoning":
        return {**item, "summary": [], "encrypted_content": "not the last word"}
    if item["type"] == "message":
        return {**item, "status": "in_progress", "content": []}
    return {**item, "status": "in_progress", "arguments": ""}


def _deltas(item: dict[str, Any], index: int) -> Iterator[tuple[str, dict[str, Any]]]:
    base = {"item_id": item["id"], "output_index": index}
    if item["type"] == "reasoning":
        for place, part in enumerate(item["summary"]):
            at = {**base, "summary_index": place}
            yield "response.reasoning_summary_part.added", {**at, "part": {"type": "summary_text", "text": ""}}
            for piece in pieces(part["text"]):
                yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
            yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
    elif item["type"] == "message":
        [part] = item["content"]
        kind, key = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
        at = {**base, "content_index": 0}
        yield "response.content_part.added", {**at, "part": {**part, key: ""}}
        for piece in pieces(part[key]):
            yield f"response.{kind}.delta", {**at, "delta": piece}
        yield f"response.{kind}.done", {**at, key: part[key]}
    else:
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**base, "delta": piece}
        yield "response.function_call_arguments.done", {**base, "arguments": item["arguments"]}


def _usage(usage: dict[str, int]) -> dict[str, Any]:
    given, made = usage.get("input", 0), usage.get("output", 0)
    found: dict[str, Any] = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
    if "cache_read" in usage:
        found["input_tokens_details"] = {"cached_tokens": usage["cache_read"]}
    if "reasoning" in usage:
        found["output_tokens_details"] = {"reasoning_tokens": usage["reasoning"]}
    return found


def pieces(text: str, size: int = 8) -> Iterator[str]:
    """A text in the small pieces in which it streams."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
