"""Whether a turn that failed is asked again, and when. Pure: the caller waits, and records every attempt."""

from __future__ import annotations

from perdure.llm.protocol import ModelError

MAX_ATTEMPTS = 3
WAITS_MS = (250, 500)


def may_try_again(attempt: int, error: ModelError) -> bool:
    """Whether attempt number `attempt` (from 1) may be followed by another: nothing of an answer came, nothing was counted."""
    return error.retryable and attempt < MAX_ATTEMPTS and not error.had_output and error.usage is None


def next_attempt(attempt: int, error: ModelError, deadline_left_ms: float | None) -> int | None:
    """How long to wait before the next attempt, in milliseconds; None when there is none.

    The provider's own wish decides, else 250 ms, then 500 ms. A wait that would not end before the deadline is not begun.
    """
    if not may_try_again(attempt, error):
        return None
    wait = _wait_ms(attempt, error)
    return wait if deadline_left_ms is None or wait < deadline_left_ms else None


def final_error(attempt: int, error: ModelError, deadline_left_ms: float | None) -> ModelError:
    """What to tell when `next_attempt` gave None: the error itself, or RATE_LIMIT when only the deadline stands in the way."""
    if not may_try_again(attempt, error) or deadline_left_ms is None:
        return error
    wait = _wait_ms(attempt, error)
    return ModelError(
        "RATE_LIMIT",
        f"{error.message} The next attempt would be due in {wait} ms, after the deadline.",
        retryable=True,
        retry_after_ms=wait,
        hint=error.hint or "",
    )


def _wait_ms(attempt: int, error: ModelError) -> int:
    return error.retry_after_ms if error.retry_after_ms is not None else WAITS_MS[min(attempt, len(WAITS_MS)) - 1]
