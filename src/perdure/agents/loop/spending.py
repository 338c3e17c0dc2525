"""What one agent has used so far, and whether it may go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.llm.prices import cost_usd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.agents.loop.history import Attempt, TurnRecord
    from perdure.kernel.context import OperationContext
    from perdure.llm.prices import Price

_COUNTERS = (
    "input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip


class Spending:
    """Sums what turns report. A counter that no turn reported stays absent; so does the cost when a price is not known."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self.usage: dict[str, Any] = {}
        self._prices = prices

    def add(self, record: TurnRecord) -> None:
        """A turn, from the log or just asked; of failed attempts what they reported."""
        self.usage["turns"] = self.usage.get("turns", 0) + 1
        self.usage["tool_calls"] = self.usage.get("tool_calls", 0) + len(record.message.tool_calls)
        self.add_attempts(record.attempts)

    def add_attempts(self, attempts: tuple[Attempt, ...]) -> None:
        """What each call of a provider reported."""
        for each in attempts:
            if each.usage is None:
                continue
            counted = {name: getattr(each.usage, name) for name in _COUNTERS}
            self.add_usage({name: count for name, count in counted.items() if count is not None})
            cost = cost_usd(each.backend, each.model, each.usage, self._prices)
            if cost is not None:
                self.add_usage({"cost": cost})

    def add_usage(self, usage: Mapping[str, Any]) -> None:
        """Counters that somebody else summed."""
        for name, count in usage.items():
            if isinstance(count, (int, float)):
                self.usage[name] = self.usage.get(name, 0) + count

    def inner(self) -> Spending:
        """For an agent inside this one; what it spends is added when it has ended."""
        return Spending(self._prices)

    async def check(self, op: OperationContext) -> None:
        """Return when the next turn may be asked."""
