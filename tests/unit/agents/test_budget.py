"""What a budget allows."""

from typing import Any

import pytest

from perdure.agents.budget import NO_BUDGET, Budget, Call, tokens_of, why_over


@pytest.mark.parametrize(
    ("budget", "used", "call", "why"),
    [
        (NO_BUDGET, {"cost": 1e9, "total_tokens": 10**12, "tool_calls": 10**9}, "model", None),
        (Budget(usd=1.0), {"cost": 0.99}, "model", None),
        (Budget(usd=1.0), {"cost": 1.0}, "model", "has cost $1.0000, and its budget is $1"),
        (Budget(usd=0.0), {}, "model", "has cost $0.0000, and its budget is $0"),
        (Budget(tokens=1000), {"total_tokens": 999}, "model", None),
        (Budget(tokens=1000), {"total_tokens": 1000}, "model", "has used 1,000 tokens, and its budget is 1,000"),
        (Budget(turns=3), {"turns": 2}, "model", None),
        (Budget(turns=3), {"turns": 3}, "model", "has made 3 turns, and its budget is 3"),
        (Budget(turns=3), {"turns": 3}, "tool", None),
        (Budget(tool_calls=2), {"tool_calls": 2}, "model", None),
        (Budget(tool_calls=2), {"tool_calls": 2}, "tool", "has made 2 tool calls, and its budget is 2"),
        (Budget(tool_calls=2), {"tool_calls": 1}, "tool", None),
        (Budget(usd=1.0), {"cost": 2.0}, "tool", None),
        (Budget(usd=1.0), {"unpriced": 2}, "model", "has a budget of $1, and nobody knows what 2 of its calls cost"),
        (Budget(tokens=10), {"unpriced": 2}, "model", None),
    ],
)
def test_a_call_is_made_while_there_is_room(budget: Budget, used: dict[str, Any], call: Call, why: str | None) -> None:
    assert why_over(budget, used, call) == why


def test_an_unknown_cost_can_be_allowed() -> None:
    assert why_over(Budget(usd=1.0), {"cost": 0.5, "unpriced": 1}, "model", allow_unknown_cost=True) is None


def test_who_reports_no_total_counts_its_cache_apart() -> None:
    assert tokens_of({"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4}) == 10
    assert tokens_of({"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 3, "total_tokens": 12}) == 12
