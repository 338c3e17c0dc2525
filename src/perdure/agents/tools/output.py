"""What a model sees of a long output: its beginning and its end; all of it is kept."""

from __future__ import annotations

import hashlib
import os

from perdure.agents.tools.tool import Invocation, ToolOutcome
from perdure.disk.atomic import write_new

# Characters of one result that go to the model.
LIMIT = 30_000
_HEAD = 20_000
_TAIL = 9_000


def harmless(text: str) -> str:
    """The text as every store and provider takes it: no NUL, no half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def masked(text: str, call: Invocation) -> str:
    """The text without secrets, before any of it is kept."""
    if call.context.new_filter is None:
        return text
    filtered = call.context.new_filter()
    return (filtered.feed(text.encode("utf-8", "replace")) + filtered.close()).decode("utf-8", "replace")


def outcome_of(text: str, call: Invocation, *, is_error: bool = False, after: str = "") -> ToolOutcome:
    """A result with this text, cut when it is long; `after` always stands at its end."""
    text = harmless(masked(text, call))
    if len(text) + len(after) <= LIMIT:
        return ToolOutcome(text + after, is_error)
    path = scratch_file(call, "whole")
    write_new(path, text.encode())
    return ToolOutcome(cut(text[:_HEAD], text[-_TAIL:], len(text), call) + after, is_error, call.keep_text(path))


def outcome_of_file(path: str, call: Invocation, *, is_error: bool, after: str) -> ToolOutcome:
    """A result with the content of a finished file, which may be of any size; the file is kept or removed."""
    size = os.path.getsize(path)
    if size <= LIMIT * 4:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "replace")
        os.unlink(path)
        return outcome_of(text, call, is_error=is_error, after=after)
    with open(path, "rb") as file:
        head = file.read(_HEAD * 4).decode("utf-8", "replace")[:_HEAD]
        file.seek(size - _TAIL * 4)
        tail = file.read().decode("utf-8", "replace")[-_TAIL:]
    text = cut(harmless(head), harmless(tail), size, call, unit="bytes")
    return ToolOutcome(text + after, is_error, call.keep_text(path))


def cut(head: str, tail: str, total: int, call: Invocation, unit: str = "characters") -> str:
    """A beginning and an end, and between them what is left out and how to get it."""
    left_out = total - len(head) - len(tail)
    about = f'[... {left_out} of {total} {unit} left out; read_output with call_id "{call.call_id}" shows them ...]'
    return f"{head}\n{about}\n{tail}"


def scratch_file(call: Invocation, name: str) -> str:
    """A path for output of this call alone, the same when the call runs again."""
    short = hashlib.sha256(call.place.encode("utf-8", "replace")).hexdigest()[:16]
    return os.path.join(call.context.scratch, f"tool-{os.getpid()}-{short}.{name}")
