"""What one agent has used so far, and whether it may go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.agents.budget import add
from perdure.llm.prices import cost_usd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from perdure.agents.budget import Call
    from perdure.agents.loop.history import Attempt
    from perdure.llm.prices import Price

_COUNTERS = (
    "input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip


def usage_of_attempts(attempts: Iterable[Attempt], prices: Mapping[str, Price]) -> dict[str, Any]:
    """What calls of a provider reported, failed ones too. A counter that none reported stays absent; so does a cost without a price,
    and `unpriced` counts the calls whose cost nobody knows."""
    total: dict[str, Any] = {}
    for each in attempts:
        if each.usage is None and each.error is not None:
            continue
        counted = {name: getattr(each.usage, name, None) for name in _COUNTERS}
        add(total, {name: count for name, count in counted.items() if count is not None})
        cost = cost_usd(each.backend, each.model, each.usage, prices)
        add(total, {"unpriced": 1} if cost is None else {"cost": cost})
    return total


class Spending:
    """Sums what an agent uses. `check` returns when it may make one more call; `on_usage` hears what is used here and now, not what a
    replay finds in the log."""

    def __init__(
        self,
        prices: Mapping[str, Price],
        check: Callable[[Mapping[str, Any], Call], Awaitable[None]] | None = None,
        on_usage: Callable[[Mapping[str, Any]], None] = lambda _usage: None,
        outer: Spending | None = None,
    ) -> None:
        self.usage: dict[str, Any] = {"turns": 0, "tool_calls": 0}
        self._prices = prices
        self._check = check
        self._on_usage = on_usage
        self._outer = outer

    def add_turn(self, attempts: tuple[Attempt, ...], *, is_live: bool) -> None:
        """A turn that was answered, from the log or just now."""
        self._add({"turns": 1}, is_live=is_live)
        self.add_attempts(attempts, is_live=is_live)

    def add_attempts(self, attempts: tuple[Attempt, ...], *, is_live: bool) -> None:
        """What each call of a provider reported."""
        self._add(usage_of_attempts(attempts, self._prices), is_live=is_live)

    def add_tool_call(self, *, is_live: bool) -> None:
        """A tool is called."""
        self._add({"tool_calls": 1}, is_live=is_live)

    def add_inner(self, usage: Mapping[str, Any]) -> None:
        """What an agent inside this one used; it has told `on_usage` itself."""
        add(self.usage, usage)

    def inner(self) -> Spending:
        """For an agent inside this one; what it spends is added when it has ended, and counts against the same budget before."""
        return Spending(self._prices, self._check, self._on_usage, self)

    async def check(self, call: Call) -> None:
        """Return when the next call of that kind may be made."""
        if self._check is not None:
            await self._check(self._whole(), call)

    def _add(self, usage: Mapping[str, Any], *, is_live: bool) -> None:
        add(self.usage, usage)
        if is_live:
            self._on_usage(usage)

    def _whole(self) -> dict[str, Any]:
        """What the whole agent used, all those that it is inside of too."""
        total = dict(self.usage)
        if self._outer is not None:
            add(total, self._outer._whole())
        return total
