"""Graphs use models: hooks around their tools, a fan-in that names a winner, a manager that steers."""

import json
import time
from typing import Any

import pytest

from perdure.graph.handlers.fan_in import named_in
from perdure.testing.providers import Call, Reply

from .models import Agent

SHELL = Reply(text="Working.", tool_calls=[Call("shell", {"command": "touch made"})])


# Hooks


def hook(event: str, command: str) -> dict[str, Any]:
    return {"event": event, "command": command, "name": "guard"}


def test_a_hook_keeps_a_model_from_calling_a_tool_and_the_model_is_told_why(agent: Agent) -> None:
    blocking = hook("pre_tool_use", """echo '{"decision": "block", "reason": "not on a Friday"}'""")
    assert agent.run([SHELL, Reply(text="I may not.")], hooks=[blocking]) == "succeeded"

    assert not (agent.graphs.work / "made").exists()
    [result] = [each for each in agent.said() if each["role"] == "tool"]
    assert "not on a Friday" in result["content"]


def test_hooks_hear_of_each_call_once_also_when_the_run_goes_on(agent: Agent) -> None:
    told = agent.graphs.folder / "told"
    record = f'printf "%s %s\\n" "$PERDURE_EVENT" "$PERDURE_TOOL_NAME" >> {told}'
    both = [hook("pre_tool_use", record), hook("post_tool_use", record) | {"name": "after"}]
    body = "work [prompt=work] gate [shape=hexagon] start -> work -> gate gate -> exit [label=Y]"
    assert agent.run_graph([SHELL, Reply(text="Done.")], body, hooks=both) == "waiting"
    agent.graphs.answer("Y")
    agent.graphs.engine = agent.graphs.new_engine()
    assert agent.graphs.resume().status == "succeeded"

    assert told.read_text().splitlines() == ["pre_tool_use shell", "post_tool_use shell"]


def test_a_graphs_own_tool_hook_guards_models_too(agent: Agent) -> None:
    assert agent.run([SHELL, Reply(text="I may not.")], ', tool_hooks.pre="exit 1"') == "succeeded"

    assert not (agent.graphs.work / "made").exists()


# Fan-in

RACE = (
    "p [shape=component] a [prompt=one] b [prompt=two] j [shape=tripleoctagon, prompt=judge] "
    "start -> p p -> a p -> b a -> j b -> j j -> exit"
)


def judged(*verdicts: str) -> Any:
    """A model that does the branches' work, and then says these things as the judge."""
    said = iter(verdicts)

    def script(asked: Any) -> Reply:
        return Reply(
            text=next(said) if asked.first_text.startswith("judge") or "judge" in asked.first_text else "Done."
        )

    return script


def test_a_model_names_the_winner_in_a_form(agent: Agent) -> None:
    assert agent.run_graph(judged('{"best_id": "b", "reason": "shorter"}'), RACE) == "succeeded"

    assert agent.graphs.context()["parallel.fan_in.best_id"] == "b"


@pytest.mark.parametrize("verdict", ["", "All of them are fine!", '{"best_id": "c"}', '{"best": "b"}'])
def test_a_judge_that_names_no_branch_chooses_nothing(agent: Agent, verdict: str) -> None:
    assert agent.run_graph(judged(verdict, verdict), RACE) == "failed"

    assert "parallel.fan_in.best_id" not in agent.graphs.context()


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("b", ["b"]),
        ("The best is b.", ["b"]),
        ("Both a and b do.", ["a", "b"]),
        ("Better luck next time", []),
        ('{"best_id": "a"}', ["a"]),
        ('{"best_id": "z"}', []),
    ],
)
def test_a_branch_is_named_by_its_id_as_a_word(answer: str, named: list[str]) -> None:
    assert named_in(answer, ["a", "b"]) == named


# Managers


def test_a_manager_steers_the_agent_of_its_child(agent: Agent) -> None:
    child = "digraph c { start [shape=Mdiamond] exit [shape=Msquare] inner [prompt=inner] start -> inner -> exit }"
    steered: list[str] = []

    def script(asked: Any) -> Reply:
        text = json.dumps(asked.body["messages"])
        if "look after a workflow" in text:
            return Reply(text="Use tabs, not spaces.")
        if "Use tabs" in text:
            steered.append(text)
            return Reply(text="Done with tabs.")
        time.sleep(0.05)
        return Reply(text="Looking.", tool_calls=[Call("list", {"path": f"{asked.number}"})])

    body = (
        f'm [shape=house, prompt="Mind the style.", stack.child_dot_source="{child}", manager.actions="observe,steer", '
        'manager.poll_interval="100ms", manager.max_cycles=50] start -> m -> exit'
    )
    status = agent.run_graph(script, body)
    assert status == "succeeded", str([e.properties["failure"] for e in agent.graphs.events("step.failed")])
    assert steered != []
