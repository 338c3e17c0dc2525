"""Lines as the two programs print them, recorded from Claude Code 2.1 and Codex 0.171 and cut to what matters; and programs that print them."""

import json
from typing import Any

SESSION = "9122f4f3-37f9-4d6b-9331-7ede6dd8209d"
THREAD = "01a23020-0ea1-7d91-be01-28c7fb9cdd04"


def claude_init(session: str = SESSION) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "init",
        "session_id": session,
        "model": "m-1[1m]",
        "permissionMode": "acceptEdits",
    }


def claude_says(text: str) -> dict[str, Any]:
    return _assistant({"type": "text", "text": text})


def claude_calls(tool: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    return _assistant({"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": arguments})


def claude_got(text: str, number: int = 1, *, is_error: bool = False) -> dict[str, Any]:
    block: dict[str, Any] = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": text}
    return {"type": "user", "message": {"role": "user", "content": [block | ({"is_error": True} if is_error else {})]}}


def claude_result(text: str = "Done.", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 203, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 14, "output_tokens": 18}
    found = {"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": SESSION}
    return (
        found
        | {"total_cost_usd": 0.001472, "usage": usage | {"service_tier": "standard"}, "permission_denials": []}
        | more
    )


def _assistant(block: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"id": "msg_1", "role": "assistant", "model": "m-1", "content": [block]},
        "parent_tool_use_id": None,
        "session_id": SESSION,
    }


def codex_started(thread: str = THREAD) -> dict[str, Any]:
    return {"type": "thread.started", "thread_id": thread}


def codex_item(kind: str, *, event: str = "item.completed", **more: Any) -> dict[str, Any]:
    return {"type": event, "item": {"id": "item_1", "type": kind} | more}


def codex_completed(tokens: int = 203) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "cached_input_tokens": 14, "cache_write_input_tokens": 0, "output_tokens": 18}
    return {"type": "turn.completed", "usage": usage | {"reasoning_output_tokens": 4}}


CODEX = [
    codex_started(),
    codex_item("error", message="Model metadata for `fake-1` not found."),
    {"type": "turn.started"},
    codex_item("command_execution", event="item.started", command="/bin/bash -lc 'echo hi > b.txt'"),
    codex_item("command_execution", command="/bin/bash -lc 'echo hi > b.txt'", exit_code=0, status="completed"),
    codex_item("agent_message", text="Done."),
    codex_completed(),
]


def printing(*lines: dict[str, Any] | str | bytes, then: str = "") -> str:
    """A program that reads its input, keeps it and its arguments beside its work, prints the lines and does what comes then."""
    content = b"".join(_line(each) for each in lines)
    return f"""
import json, os, sys, time
with open("../asked.jsonl", "a") as file:
    file.write(json.dumps([sys.argv[1:], sys.stdin.read(), dict(os.environ)]) + "\\n")
sys.stdout.buffer.write({content!r})
sys.stdout.flush()
{then}
"""


def _line(line: dict[str, Any] | str | bytes) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode() + b"\n"
