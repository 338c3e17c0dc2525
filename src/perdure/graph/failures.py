"""Failures in classes that conditions can route on, and signatures by which the same failure is known again."""

import re

from perdure.kernel.outcome import Failure, FailureClass

_HINTS: tuple[tuple[FailureClass, tuple[str, ...]], ...] = (
    ("canceled", ("cancelled", "canceled", "aborted by")),
    ("budget_exhausted", ("budget", "quota exceeded", "insufficient credit", "context length", "turn limit", "max tokens")),
    ("compilation_loop", ("compilation failed repeatedly", "compile loop")),
    ("transient_infra", (
        "timeout", "timed out", "connection reset", "connection refused", "rate limit", "429", "502", "503", "504",
        "overloaded", "temporarily unavailable", "broken pipe", "network",
    )),
    ("structural", ("no outgoing", "unknown node", "not found in graph", "invalid graph")),
)  # fmt: skip
_NUMBERS = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,64}\b|\d+")
COUNTED = ("deterministic", "structural")


def classify(message: str) -> FailureClass:
    """The class that a message hints at; deterministic when it hints at none."""
    lower = message.lower()
    for failure_class, words in _HINTS:
        if any(word in lower for word in words):
            return failure_class
    return "deterministic"


def signature(node_id: str, failure: Failure) -> str:
    """The node, the class and the message without numbers, case and spaces, at most 240 characters."""
    if failure.failure_signature:
        return failure.failure_signature
    text = _NUMBERS.sub("#", failure.message.lower())
    return f"{node_id}|{failure.failure_class}|{' '.join(text.split())}"[:240]
