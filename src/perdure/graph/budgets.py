"""The budgets of a run and of its agents: what was used, from the log and since, and the pause when a limit is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.agents.budget import NO_BUDGET, Budget, add, why_over
from perdure.base.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.agents.budget import Call
    from perdure.graph.model import Node
    from perdure.graph.options import Options
    from perdure.kernel.context import RunContext

# Backends that no money is paid for, and programs that never tell what they cost.
_FREE = ("scripted", "simulated")
WITHOUT_COST = ("codex", "acp")
# Steps whose results say what a call of a provider, or an agent's program, used.
_TURN, _NODE = "agent.turn", "graph.node"
_TOOLS = ("agent.tool", "agent.inner", "agent.question")


def budget_of(node: Node) -> Budget:
    """What a node's own attributes allow it. Raises `Refused`."""
    text = node.text("budget_usd")
    try:
        usd = float(text) if text else None
    except ValueError as error:
        raise Refused(f"Node {node.id}: budget_usd is {text!r}, which is no number.", hint="Write 2.50.") from error
    return Budget(usd, node.integer("budget_tokens"), tool_calls=node.integer("budget_tool_calls"))


def needs_price(node: Node, options: Options) -> bool:
    """Whether nothing may be asked whose cost nobody knows."""
    return not options.allow_unknown_cost and (options.budget.usd is not None or budget_of(node).usd is not None)


def told_by(backend: str, usage: dict[str, Any] | None, *, must_tell: bool) -> dict[str, Any] | None:
    """What an agent's program said that it used. One that says nothing of its cost has one all the same: it is counted as unknown
    where it said anything else, or where it matters."""
    if backend in _FREE or "cost" in (usage or {}) or not (usage or must_tell):
        return usage
    return {**(usage or {}), "unpriced": 1}


class Spent:
    """What a run has used: what the log had of it when this process took it over, and what was used here."""

    def __init__(self, options: Options) -> None:
        self._limit = options.budget
        self._options = options
        self._here: dict[str, Any] = {}
        self._before: dict[str, Any] | None = None

    def add(self, usage: Mapping[str, Any]) -> None:
        """Something was used here."""
        add(self._here, usage)

    async def check(self, op: RunContext, node: Node, own: Mapping[str, Any], call: Call = "model") -> None:
        """Return when the agent of this node, which itself has used `own`, may make one more call; pause the run when not."""
        allowed = self._options.allow_unknown_cost
        why = why_over(budget_of(node), own, call, allow_unknown_cost=allowed)
        if why is not None:
            await op.pause(
                f"Agent {node.id} {why}. {_way_on(why, 'Raise it in the graph, then resume with --accept-changes.')}"
            )
        if self._limit != NO_BUDGET:
            why = why_over(self._limit, self.total(op), call, allow_unknown_cost=allowed)
            if why is not None:
                raising = "`perdure resume` with a larger one (--budget-usd, --budget-tokens) goes on."
                await op.pause(f"The run {why}. {_way_on(why, raising)}")

    def total(self, op: RunContext) -> dict[str, Any]:
        """All of it."""
        if self._before is None:
            self._before = recorded_usage(op, self._options)
        total = dict(self._before)
        add(total, self._here)
        return total


def recorded_usage(op: RunContext, options: Options) -> dict[str, Any]:
    """What the log says that the run has used, by finished and by failed steps. A model's turns say it one by one; of a program
    only the node does."""
    import msgspec

    from perdure.agents.loop.history import attempts_of
    from perdure.agents.loop.spending import usage_of_attempts
    from perdure.llm.prices import Price

    prices = msgspec.convert(options.prices, dict[str, Price])
    total: dict[str, Any] = {}
    looped: set[str] = set()
    for step_id, result in op.recorded_results(_TURN):
        looped.add(step_id.partition("/turn-")[0].partition("/attempt-")[0])
        add(total, usage_of_attempts(attempts_of(result), prices))
        if isinstance(result, dict) and isinstance(result.get("message"), dict):
            add(total, {"turns": 1})
    # What was called, not what models wanted: a run may pause between the two.
    calls = sum(op.recorded_count(name) for name in _TOOLS)
    add(total, {"tool_calls": calls} if calls else {})
    for step_id, result in op.recorded_results(_NODE):
        usage = result.get("usage") if isinstance(result, dict) else None
        if step_id not in looped and isinstance(usage, dict):
            add(total, usage)
    return total


def _way_on(why: str, raising: str) -> str:
    unknown = "nobody knows what" in why
    return "`perdure resume` with --allow-unknown-cost goes on." if unknown else raising
