"""What a program printed, taken apart: a text, or one JSON object around a text.

Programs agree on no form, so several keys are known for the same thing. What is only half understood is a failure, never a success.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.agents.backend import AgentResult, BackendError

_TEXTS = ("text", "response", "result")
_TOKENS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "cost": "cost",
    "total_cost_usd": "cost",
}


def parse_answer(printed: str) -> AgentResult:
    """The answer in what a program printed. Raises `BackendError` when its object says that it failed, or says something unclear
    about the way on."""
    text = printed.strip()
    found = _object_of(text)
    if found is None:
        return AgentResult(text)
    said = next((found[key] for key in _TEXTS if isinstance(found.get(key), str)), None)
    if said is None:
        return AgentResult(text)
    if found.get("is_error") is True:
        raise BackendError(f"The program says that it failed: {said[-1_000:]}", failure_class=None, partial=said)
    directive = found if found.get("directive") is None else found["directive"]
    if not isinstance(directive, dict):
        message = f"The answer's 'directive' is {type(directive).__name__}, not an object, so its verdict is unclear."
        raise BackendError(message, partial=said)
    files = found.get("files_touched")
    model = found.get("model")
    return AgentResult(
        text=said,
        directive=directive,
        usage=usage_of(found),
        files_touched=[each for each in files if isinstance(each, str)] if isinstance(files, list) else [],
        model=model if isinstance(model, str) else None,
    )


def _object_of(text: str) -> dict[str, Any] | None:
    """The object that the whole text is; None when it is something else."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        value: Any = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def usage_of(found: dict[str, Any]) -> dict[str, Any] | None:
    """Tokens and cost under the names that the run's figures use; what is no number is left out."""
    usage = found.get("usage")
    given = dict(usage) if isinstance(usage, dict) else {}
    if "total_cost_usd" in found:
        given.setdefault("total_cost_usd", found["total_cost_usd"])
    counted = {
        name: given[key] for key, name in _TOKENS.items() if type(given.get(key)) in (int, float) and given[key] >= 0
    }
    return counted or None
