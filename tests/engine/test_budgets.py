"""Budgets of runs and of agents: a run pauses before the call that would be too much, and goes on with more."""

import asyncio
from typing import Any

import pytest

from perdure.testing.providers import Call, Reply

from .conftest import Graphs
from .models import Agent, looks

PRICES = {"openai-compatible/fake-model": {"input": 100_000.0, "output": 0.0}}  # a dollar a turn


def reason(graphs: Graphs) -> str:
    """Why the run paused."""
    return str(graphs.events("run.paused")[-1].properties["reason"])


def resumed_with(agent: Agent, body: str, script: list[Reply], **options: Any) -> str:
    """Another process goes on with the run, with other options; the provider's script goes on as well."""
    given = {"backend": "openai-compatible", "model": "fake-model", "agents": {"permissions": "full"}} | options
    agent.graphs.engine = agent.graphs.new_engine()
    changed = agent.graphs.definition(body, **given)
    return asyncio.run(agent.graphs.engine.execute(agent.graphs.run_id, changed=changed)).status


WORK = "work [prompt=work] start -> work -> exit"


def test_a_run_pauses_before_the_turn_that_its_budget_does_not_allow_and_goes_on_with_more(agent: Agent) -> None:
    script = [looks("1"), looks("2"), looks("3"), Reply(text="Done.")]
    money: dict[str, Any] = {"prices": PRICES}
    assert agent.run_graph(script, WORK, budget={"usd": 2.0}, **money) == "paused"
    assert len(agent.bodies) == 2
    assert "has cost $2.0000, and its budget is $2" in reason(agent.graphs)

    # Not enough for more than one turn more: what was spent before counts.
    assert resumed_with(agent, WORK, script, budget={"usd": 3.0}, **money) == "paused"
    assert len(agent.bodies) == 3
    assert resumed_with(agent, WORK, script, budget={"usd": 9.0}, **money) == "succeeded"
    assert len(agent.bodies) == 4
    assert agent.provider is not None
    assert agent.provider.answered_twice() == []


def test_what_finished_agents_used_counts_in_a_resumed_run(agent: Agent) -> None:
    body = "a [prompt=one] gate [shape=hexagon] b [prompt=two] start -> a -> gate gate -> b [label=B] b -> exit"
    script = [Reply(text="First."), Reply(text="Second.")]
    assert agent.run_graph(script, body, budget={"tokens": 15}) == "waiting"
    agent.graphs.answer("B")
    assert resumed_with(agent, body, script, budget={"tokens": 15}) == "paused"

    assert len(agent.bodies) == 1
    assert "15 tokens" in reason(agent.graphs)


def test_the_branches_of_a_run_share_its_budget(agent: Agent) -> None:
    body = (
        "p [shape=component, max_parallel=1] a [prompt=one] b [prompt=two] c [prompt=three] j [shape=tripleoctagon] "
        "start -> p p -> a p -> b p -> c a -> j b -> j c -> j j -> exit"
    )
    assert agent.run_graph(lambda _asked: Reply(text="Done."), body, budget={"tokens": 30}) == "paused"

    assert len(agent.bodies) == 2


def test_an_agent_pauses_before_the_tool_call_that_its_own_budget_does_not_allow(agent: Agent) -> None:
    calls = [Call("shell", {"command": f"touch made-{number}"}) for number in (1, 2, 3)]
    script = [Reply(tool_calls=calls), Reply(text="Done.")]
    assert agent.run(script, ", budget_tool_calls=2") == "paused"

    assert sorted(path.name for path in agent.graphs.work.iterdir()) == ["made-1", "made-2"]
    assert "Agent work has made 2 tool calls" in reason(agent.graphs)


def test_no_model_without_a_price_is_asked_under_a_budget_in_dollars(agent: Agent) -> None:
    script = [Reply(text="Done.")]
    assert agent.run(script, budget={"usd": 2.0}) == "paused"

    assert agent.bodies == []
    assert "nobody knows the price of openai-compatible/fake-model" in reason(agent.graphs)
    assert resumed_with(agent, WORK, script, budget={"usd": 2.0}, allow_unknown_cost=True) == "succeeded"


def test_a_program_that_does_not_tell_its_cost_is_followed_by_no_call_under_a_budget_in_dollars(
    graphs: Graphs,
) -> None:
    body = "a [prompt=one] b [prompt=two] start -> a -> b -> exit"
    given: dict[str, Any] = {"backend": "command", "command": ["/bin/sh", "-c", "echo . >> asked; echo done"]}
    assert graphs.run(body, budget={"usd": 2.0}, **given).status == "paused"

    assert (graphs.work / "asked").read_text() == ".\n"
    assert "nobody knows what 1 of its calls cost" in reason(graphs)


def test_what_a_program_said_that_it_cost_counts(graphs: Graphs) -> None:
    body = "a [prompt=one] b [prompt=two] c [prompt=three] start -> a -> b -> c -> exit"
    said = """echo . >> asked; echo '{"text": "done", "usage": {"total_cost_usd": 1.5}}'"""
    given: dict[str, Any] = {"backend": "command", "command": ["/bin/sh", "-c", said]}
    assert graphs.run(body, budget={"usd": 2.0}, **given).status == "paused"

    assert (graphs.work / "asked").read_text() == ".\n.\n"
    assert "has cost $3.0000" in reason(graphs)


def test_a_tool_call_that_a_pause_kept_from_being_made_is_not_counted(agent: Agent) -> None:
    calls = [Call("shell", {"command": f"touch made-{number}"}) for number in (1, 2, 3)]
    script = [Reply(tool_calls=calls), Reply(text="Done.")]
    assert agent.run(script, budget={"tool_calls": 2}) == "paused"
    assert resumed_with(agent, WORK, script, budget={"tool_calls": 3}) == "succeeded"

    assert agent.usage()["tool_calls"] == 3


def test_an_unknown_cost_can_be_allowed(agent: Agent) -> None:
    assert agent.run([Reply(text="Done.")], budget={"usd": 2.0}, allow_unknown_cost=True) == "succeeded"

    assert "cost" not in agent.usage()
    assert agent.usage()["unpriced"] == 1


@pytest.mark.parametrize("backend", ["openai", "anthropic"])
def test_the_cost_of_an_agent_is_recorded_with_what_it_used(agent: Agent, backend: str) -> None:
    prices = {f"{backend}/fake-model": {"input": 1.0, "output": 2.0}}
    assert agent.run([Reply(text="Done.")], backend=backend, prices=prices) == "succeeded"

    assert agent.usage()["cost"] == pytest.approx(20e-6)


def test_what_a_run_used_is_told_when_it_ends_also_what_was_used_before_a_kill(agent: Agent) -> None:
    body = "a [prompt=one] gate [shape=hexagon] b [prompt=two] start -> a -> gate gate -> b [label=B] b -> exit"
    script = [Reply(text="First."), Reply(text="Second.")]
    agent.run_graph(script, body)
    agent.graphs.answer("B")
    assert resumed_with(agent, body, script) == "succeeded"

    [retro] = agent.graphs.events("retro.completed")
    [ended] = agent.graphs.events("run.completed")
    assert retro.properties["retro"]["stats"]["usage"] == ended.properties["usage"]  # type: ignore[index,call-overload]
    assert ended.properties["usage"] == {
        "input_tokens": 20,
        "output_tokens": 10,
        "total_tokens": 30,
        "turns": 2,
        "unpriced": 2,
    }
