"""Agents that a model drives: what it is asked, what becomes of its calls and its answer, and what it may not get past."""

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.providers import Call, Reply

from .models import Agent, looks

BACKENDS = ("openai", "anthropic", "openai-compatible")
VERDICT = json.dumps({"type": "object", "properties": {"verdict": {"enum": ["GREEN", "RED"]}}, "required": ["verdict"]})


# Conversations


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_works_with_tools_until_it_answers(agent: Agent, backend: str) -> None:
    (agent.graphs.work / "a.txt").write_text("old\n")
    script = [
        looks("a.txt"),
        Reply(tool_calls=[Call("edit", {"path": "a.txt", "old_string": "old", "new_string": "new"})]),
        Reply(text="Edited."),
    ]
    assert agent.run(script, backend=backend) == "succeeded"

    assert (agent.graphs.work / "a.txt").read_text() == "new\n"
    assert agent.graphs.context()["response.work"] == "Edited."
    assert agent.usage()["turns"] == 3
    assert agent.usage()["tool_calls"] == 2
    assert agent.usage()["output_tokens"] == 15


def test_all_calls_of_an_answer_are_answered_together_and_in_order(agent: Agent) -> None:
    (agent.graphs.work / "a.txt").write_text("alpha\n")
    (agent.graphs.work / "b.txt").write_text("beta\n")
    assert agent.run([looks("a.txt", "b.txt", "none.txt"), Reply(text="Read.")]) == "succeeded"

    results = [each for each in agent.said() if each["role"] == "tool"]
    assert ["alpha" in results[0]["content"], "beta" in results[1]["content"]] == [True, True]
    assert "none.txt" in results[2]["content"]


def test_counters_that_a_provider_does_not_report_stay_absent(agent: Agent) -> None:
    assert agent.run([Reply(text="Done.", usage=None)]) == "succeeded"

    assert agent.usage() == {"turns": 1, "tool_calls": 0, "unpriced": 1}


def test_half_a_surrogate_pair_of_a_model_is_text_all_the_same(agent: Agent) -> None:
    assert agent.run([Reply(text="broken \ud83d end"), Reply()]) == "succeeded"

    assert "broken" in agent.graphs.context()["response.work"]


# Answers


def test_an_answer_that_lacks_its_form_gets_one_repair_turn_without_tools(agent: Agent) -> None:
    script = [Reply(text="Looks good!"), Reply(text='{"verdict": "GREEN"}')]
    assert agent.run(script, f", output_schema={json.dumps(VERDICT)}") == "succeeded"

    assert json.loads(agent.graphs.context()["response.work"]) == {"verdict": "GREEN"}
    assert "tools" in agent.bodies[0]
    assert "tools" not in agent.bodies[1]


@pytest.mark.parametrize("text", ["Looks good to me!", "", "{}", '{"verdict": "MAYBE"}', "GREEN"])
def test_an_empty_or_chatty_verdict_never_passes(agent: Agent, text: str) -> None:
    script = [Reply(text=text), Reply(text=text)]
    assert agent.run(script, f", output_schema={json.dumps(VERDICT)}") == "failed"

    assert "cannot be used" in agent.failure()["message"]
    assert len(agent.bodies) == 2


def test_a_directive_in_the_answer_is_heeded(agent: Agent) -> None:
    assert agent.run([Reply(text='{"outcome": "failed", "failure_reason": "the tests fail"}')]) == "failed"

    assert "the tests fail" in agent.failure()["message"]


# Bounds


def test_an_agent_without_an_answer_ends_at_its_limit_of_turns(agent: Agent) -> None:
    script = [looks(f"{number}.txt") for number in range(9)]
    assert agent.run(script, ", max_agent_turns=4") == "failed"

    assert "4 turns" in agent.failure()["message"]
    assert len(agent.bodies) == 4


def test_an_agent_that_goes_round_in_circles_is_told_and_then_stopped(agent: Agent) -> None:
    assert agent.run([looks("a.txt")] * 12) == "failed"

    assert len(agent.bodies) == 6
    assert "same tool calls" in agent.said(3)[-1]["content"]
    assert "circles" in agent.failure()["message"]


def test_a_provider_that_says_nothing_ends_at_the_nodes_time_limit(agent: Agent) -> None:
    assert agent.run([Reply(fault="silent")], ', timeout="400ms"') == "failed"

    assert "time" in agent.failure()["message"].lower()


# Long conversations


def test_a_conversation_near_its_limit_goes_on_from_a_summary_and_the_log_keeps_all(agent: Agent) -> None:
    full = {"input": 900, "output": 5}
    script = [
        *[looks(f"{number}.txt") for number in range(4)],
        Reply(tool_calls=[Call("read", {"path": "last.txt"})], usage=full),
        Reply(text="THE SUMMARY"),
        Reply(text="Done."),
    ]
    assert agent.run(script, agents={"permissions": "full", "context_window": 1000}) == "succeeded"

    last = json.dumps(agent.said())
    assert "THE SUMMARY" in last
    assert "0.txt" not in last
    turns = [event for event in agent.graphs.events("step.completed") if str(event.step).endswith("/model")]
    assert "0.txt" in json.dumps(turns[0].properties["result"])
    assert len(turns) == 6


def test_a_failed_summary_costs_nothing_but_itself(agent: Agent) -> None:
    full = {"input": 900, "output": 5}
    script = [
        Reply(tool_calls=[Call("read", {"path": "last.txt"})], usage=full),
        Reply(fault="status", status=400),
        Reply(text="Done."),
    ]
    assert agent.run(script, agents={"permissions": "full", "context_window": 1000}) == "succeeded"

    assert agent.graphs.events("agent.compaction.failed") != []
    assert agent.graphs.context()["response.work"] == "Done."


# Failures of providers


def _status(status: int, **more: Any) -> Reply:
    return Reply(text="Late.", fault="status", fault_times=1, status=status, **more)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_provider_that_is_busy_is_asked_again_and_every_attempt_is_recorded(agent: Agent, backend: str) -> None:
    assert agent.run([_status(429, headers={"retry-after-ms": "1"})], backend=backend) == "succeeded"

    [failed] = agent.graphs.events("agent.attempt.failed")
    assert failed.properties.get("error_code") == "RATE_LIMIT", failed.properties
    assert failed.properties["retry_in_ms"] == 1
    [turn] = [event for event in agent.graphs.events("step.completed") if str(event.step).endswith("/model")]
    attempts = turn.properties["result"]["attempts"]  # type: ignore[index,call-overload]
    assert [each.get("error_code") for each in attempts] == ["RATE_LIMIT", None]  # type: ignore[union-attr]


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_request_that_is_wrong_is_not_asked_again(agent: Agent, status: int) -> None:
    assert agent.run([Reply(fault="status", status=status)]) == "failed"

    assert len(agent.bodies) == 1


def test_a_quota_that_is_used_up_lets_the_next_backend_answer(agent: Agent) -> None:
    quota = {"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You have no credit."}}

    def script(asked: Any) -> Reply:
        if asked.path.endswith("/messages"):
            return Reply(text="From the other.")
        return Reply(fault="status", status=429, error=quota)

    chain = {"openai": ["anthropic:fake-small"]}
    assert agent.run(script, backend="openai", fallbacks=chain) == "succeeded"

    [event] = agent.graphs.events("agent.failover")
    assert (event.properties["from"], event.properties["to"]) == ("openai:fake-model", "anthropic:fake-small")
    assert agent.graphs.context()["response.work"] == "From the other."
    assert agent.bodies[-1]["model"] == "fake-small"


@pytest.mark.parametrize(
    "fault", ["cut", "cut_clean", "early_end", "empty", "page", "incomplete", "filtered", "failed"]
)
def test_half_an_answer_is_no_answer(agent: Agent, fault: Any) -> None:
    assert agent.run([Reply(text="GREEN and so on and on.", fault=fault)] * 3) == "failed"

    assert "response.work" not in agent.graphs.context()


# People


def _steered(agent: Agent, text: str) -> Callable[[Any], Reply]:
    """While the first turn is under way, somebody says the text."""
    first = threading.Event()

    def script(asked: Any) -> Reply:
        if not first.is_set():
            first.set()
            row = agent.graphs.store.find_run(agent.graphs.run_id)
            assert row is not None
            agent.graphs.store.request(row.no, "steer", json.dumps({"text": text}), 0)
            agent.graphs.engine.others.look_again()
            return Reply(text="Done.", pause_ms=300, fault="drip")
        return Reply(text=f"Heard {len(asked.body['messages'])}.")

    return script


def test_what_is_said_during_the_last_turn_makes_the_agent_go_on(agent: Agent) -> None:
    assert agent.run(_steered(agent, "Use tabs.")) == "succeeded"

    assert len(agent.bodies) == 2
    assert "Use tabs." in agent.said()[-1]["content"]
    assert agent.graphs.context()["response.work"].startswith("Heard")


def test_a_call_that_nobody_allows_is_told_to_the_model_and_recorded(agent: Agent) -> None:
    script = [Reply(tool_calls=[Call("shell", {"command": "touch made"})]), Reply(text="I may not.")]
    assert agent.run(script, agents={"permissions": "read-only"}) == "succeeded"

    assert not (agent.graphs.work / "made").exists()
    [result] = [each for each in agent.said() if each["role"] == "tool"]
    assert "permission" in result["content"].lower() or "read-only" in result["content"]


# Threads


TWO = "a [prompt=one, thread_id=t] b [prompt=two, thread_id=t] start -> a -> b -> exit"


def test_a_thread_at_full_fidelity_is_one_conversation(agent: Agent) -> None:
    body = f"graph [default_fidelity=full] {TWO}"
    assert agent.run_graph([Reply(text="First."), Reply(text="Second.")], body) == "succeeded"

    assert [each["role"] for each in agent.said()] == ["system", "user", "assistant", "user"]
    assert agent.said()[2]["content"] == "First."


def test_a_thread_stays_full_in_a_resumed_run(agent: Agent) -> None:
    body = f"graph [default_fidelity=full] {TWO.replace('a -> b', 'a -> gate -> b')} gate [shape=hexagon]"
    assert agent.run_graph([Reply(text="First."), Reply(text="Second.")], body) == "waiting"
    agent.graphs.engine = agent.graphs.new_engine()
    agent.graphs.answer("B")
    assert agent.graphs.resume().status == "succeeded"

    assert [each["role"] for each in agent.said()] == ["system", "user", "assistant", "user"]


# Git


def test_the_edits_of_an_agent_are_the_commit_of_its_node(agent: Agent, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    script = [Reply(tool_calls=[Call("write", {"path": "made.txt", "content": "made"})]), Reply(text="Made.")]
    where = {"git": "worktree", "repository": str(repository), "working_directory": str(repository)}
    assert agent.run(script, **where) == "succeeded"

    shown = subprocess.run(
        ["git", "log", "-1", "--format=%s", f"perdure/run/{agent.graphs.run_id}", "--", "made.txt"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "work" in shown
