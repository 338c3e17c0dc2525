"""When a conversation is too long for its model, and what then stands for its beginning. Pure."""

from __future__ import annotations

import msgspec

from perdure.llm.protocol import Message, ToolResult, Usage

# Of the model's context window, as the provider counted it.
SHARE = 0.8
KEEP = 6
REQUEST = (
    "The conversation is near the end of what you can see at once. Write a summary by which you could go on without it: the task as it "
    "was given, what was found out, which files were read and changed and how, what was decided, what is still to be done. "
    "Answer with the summary alone."
)
# What nobody says of a model. Wrong is harmless: too small compacts early, too large ends in an error that compacts too.
DEFAULT_WINDOW = {"openai": 200_000, "anthropic": 180_000, "openai-compatible": 32_000, "local": 4_096}


def is_due(usage: Usage | None, backend: str, window: int | None) -> bool:
    """Whether the next turn should not be asked with the whole conversation."""
    if usage is None or usage.input_tokens is None:
        return False
    size = usage.input_tokens + (usage.output_tokens or 0)
    if backend == "anthropic":  # which counts what it has in its cache by itself
        size += (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return size > SHARE * (window or DEFAULT_WINDOW.get(backend, 32_000))


def kept(messages: tuple[Message, ...]) -> int:
    """How many of the last messages stay as they are: never results without the calls that they answer."""
    keep = min(KEEP, max(0, len(messages) - 2))
    while keep and messages[len(messages) - keep].role == "tool":
        keep -= 1
    return keep


def summary_message(text: str) -> Message:
    """What the model sees in place of the beginning."""
    return Message("user", text=f"What came before, as you summed it up:\n\n{text.strip()}")


def shortened(messages: tuple[Message, ...], limit: int = 2_000) -> tuple[Message, ...]:
    """The conversation with long results of tools cut, for a model that cannot even be asked for a summary."""
    return tuple(
        Message("tool", tool_results=tuple(_cut(each, limit) for each in message.tool_results))
        if message.role == "tool"
        else message
        for message in messages
    )


def _cut(result: ToolResult, limit: int) -> ToolResult:
    if len(result.text) <= limit:
        return result
    return msgspec.structs.replace(result, text=f"{result.text[:limit]}\n[... cut to save room ...]")
