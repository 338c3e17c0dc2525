"""What an agent's answer says about the way on: the last JSON object in it that holds a routing word."""

from __future__ import annotations

import json
from typing import Any

from perdure.graph.names import is_status, status_word
from perdure.graph.outcome import NodeOutcome, failed
from perdure.kernel.outcome import Failure

WORDS = (
    "outcome",
    "preferred_next_label",
    "preferred_label",
    "failure_reason",
    "suggested_next_ids",
    "context_updates",
)


def find_directive(text: str) -> dict[str, Any] | None:
    """The last balanced object with one of the routing words; None when there is none."""
    decoder = json.JSONDecoder()
    at = len(text)
    while (at := text.rfind("{", 0, at)) >= 0:
        try:
            value, _end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and any(word in value for word in WORDS):
            return _outermost(decoder, text, at, value)
    return None


def _outermost(decoder: json.JSONDecoder, text: str, at: int, value: dict[str, Any]) -> dict[str, Any]:
    """The object that the found one is a part of, if that is a directive too."""
    end = at + 1
    start = at
    while (start := text.rfind("{", 0, start)) >= 0:
        try:
            outer, outer_end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if outer_end < end:
            break
        if isinstance(outer, dict) and any(word in outer for word in WORDS):
            value = outer
    return value


def apply_directive(outcome: NodeOutcome, directive: dict[str, Any]) -> NodeOutcome:
    """The outcome with what the directive says. A word that is no status is a failure: an unclear verdict never passes."""
    label = directive.get("preferred_next_label") or directive.get("preferred_label")
    suggested = directive.get("suggested_next_ids")
    updates = directive.get("context_updates")
    outcome = outcome.but(
        preferred_label=str(label) if label else outcome.preferred_label,
        suggested_next_ids=[str(each) for each in suggested] if isinstance(suggested, list) else [],
        context_updates=outcome.context_updates | (updates if isinstance(updates, dict) else {}),
    )
    word = directive.get("outcome")
    reason = directive.get("failure_reason")
    if word is None:
        return outcome
    if not isinstance(word, str) or not is_status(word):
        return failed(f"The answer names the outcome {word!r}, which is none.", context_updates=outcome.context_updates)
    status = status_word(word)
    failure = None
    if status in ("failed", "retry"):
        from perdure.graph.failures import classify

        message = str(reason or f"The answer says {word}.")
        failure = Failure(message, classify(message) if reason else "deterministic")
    return outcome.but(status=status, failure=failure)
