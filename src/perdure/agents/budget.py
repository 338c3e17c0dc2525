"""How much agents may use, and whether they have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

# A call of a model (or of an agent's program), or of a tool.
Call = Literal["model", "tool"]


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits in US dollars, tokens, turns of models and tool calls; None is no limit. They are compared before a call: what is under
    way ends."""

    usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    tool_calls: int | None = None


NO_BUDGET = Budget()


def add(total: dict[str, Any], usage: Mapping[str, Any]) -> None:
    """Counters are summed by their names; one that nobody reported stays absent."""
    for name, count in usage.items():
        if isinstance(count, (int, float)) and not isinstance(count, bool):
            total[name] = total.get(name, 0) + count


def tokens_of(usage: Mapping[str, Any]) -> int:
    """All tokens. Who reports no total counts what it has in its cache apart from the input."""
    if "total_tokens" in usage:
        return int(usage["total_tokens"])
    parts = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return sum(int(usage.get(name, 0)) for name in parts)


def why_over(budget: Budget, used: Mapping[str, Any], call: Call, *, allow_unknown_cost: bool = False) -> str | None:
    """Which limit keeps the next call of that kind from being made, as the second half of a sentence; None when there is room.
    A budget in dollars cannot be held once something was used whose cost nobody knows (`unpriced`)."""
    if call == "tool":
        made = used.get("tool_calls", 0)
        if budget.tool_calls is not None and made >= budget.tool_calls:
            return f"has made {made:,} tool calls, and its budget is {budget.tool_calls:,}"
        return None
    cost, tokens = used.get("cost", 0), tokens_of(used)
    if budget.usd is not None and cost >= budget.usd:
        return f"has cost ${cost:.4f}, and its budget is ${budget.usd:g}"
    if budget.usd is not None and used.get("unpriced") and not allow_unknown_cost:
        return f"has a budget of ${budget.usd:g}, and nobody knows what {used['unpriced']:,} of its calls cost"
    if budget.tokens is not None and tokens >= budget.tokens:
        return f"has used {tokens:,} tokens, and its budget is {budget.tokens:,}"
    turns = used.get("turns", 0)
    if budget.turns is not None and turns >= budget.turns:
        return f"has made {turns:,} turns, and its budget is {budget.turns:,}"
    return None
