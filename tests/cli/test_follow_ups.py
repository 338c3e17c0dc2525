"""`perdure session send`: a conversation that has ended goes on, unchanged up to the question."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.testing.providers import Call, FakeProvider, Reply

from .workflows import started, until

GRAPH = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]
  a [prompt="Look around.", permission="full"]; start -> a -> exit }"""
ANSWER = Reply(text="Because of the notes.")
WORK = [Reply(text="Looking.", tool_calls=[Call("shell", {"command": "echo seen"})]), Reply(text="All is well.")]
BACKENDS = ("openai", "anthropic", "openai-compatible")


def _work(perdure: Perdure, folder: Path, provider: FakeProvider, backend: str = "openai") -> str:
    """A run with one agent, which has ended; its session's id."""
    (folder / "g.fabro").write_text(GRAPH)
    perdure("run", "g.fabro", "--backend", backend, "--model", "fake-model", env=provider.environ).succeeded()
    [session] = perdure("session", "list", "--json").succeeded().json
    return str(session["sessionId"])


def _said(body: dict[str, Any]) -> list[Any]:
    """What a request holds of the conversation."""
    return list(body.get("input") or body["messages"])


def _without_marks(messages: list[Any]) -> Any:
    """Without the marks of how far a cache reaches, which move along."""
    text = json.dumps(messages)
    return json.loads(text.replace(', "cache_control": {"type": "ephemeral"}', ""))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_follow_up_replays_the_conversation_unchanged(perdure: Perdure, tmp_path: Path, backend: str) -> None:
    with FakeProvider([*WORK, ANSWER, Reply(text="Twice.")]) as provider:
        session = _work(perdure, tmp_path, provider, backend)
        done = perdure("session", "send", session, "Why?", env=provider.environ).succeeded()
        again = perdure("session", "send", session, "Again?", "--json", env=provider.environ).succeeded().json
        bodies = [request.body for request in provider.requests]

    assert done.out == "Because of the notes.\n"
    work, first, second = (_without_marks(_said(body)) for body in bodies[1:])
    assert first[: len(work)] == work
    assert second[: len(first)] == first
    assert "Why?" in json.dumps(first[-1])
    assert bodies[2].get("prompt_cache_key") == bodies[1].get("prompt_cache_key")
    assert bodies[2].get("system") == bodies[1].get("system")
    assert (again["send"], again["answer"], again["sessionId"]) == (2, "Twice.", session)
    assert again["usage"]["turns"] == 1


def test_a_follow_up_is_shown_with_the_question_as_it_was_asked(perdure: Perdure, tmp_path: Path) -> None:
    with FakeProvider([*WORK, ANSWER]) as provider:
        session = _work(perdure, tmp_path, provider)
        perdure("session", "send", session, "Why?", env=provider.environ).succeeded()
    shown = perdure("session", "show", session).succeeded().out
    whole = perdure("session", "show", session, "--json").succeeded().json

    assert "Why?" in shown
    assert "which has ended" not in shown
    sent = [each for each in whole["events"] if each.get("send") and each["kind"] != "delivery"]
    assert [each["kind"] for each in sent] == ["send", "message", "attempt", "message", "answer"]
    assert "which has ended" in sent[0]["framing"]
    assert perdure("session", "show", session, "--summary", "--json").succeeded().json["followUps"] == 1


def test_a_follow_up_that_was_killed_goes_on_and_is_saved_once(
    perdure: Perdure, tmp_path: Path, state_home: Path
) -> None:
    asks = Reply(text="Let me look.", tool_calls=[Call("list", {})])
    with FakeProvider([*WORK, asks, Reply(text="Late.", fault="hang", fault_times=1)], pick="turn") as provider:
        session = _work(perdure, tmp_path, provider)
        command = [sys.executable, "-m", "perdure.cli.entry", "session", "send", session, "Why?"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, **provider.environ}, stdout=subprocess.PIPE
        )
        provider.wait(lambda requests: len(requests) == 4 and requests[-1].sent_events > 0)
        process.kill()
        process.communicate()
        perdure("resume", "follow-up", env=provider.environ).succeeded()

        assert provider.answered_twice() == []
    events = perdure("session", "show", session, "--json").succeeded().json["events"]
    sent = [each["kind"] for each in events if each.get("send") and each["kind"] != "delivery"]
    assert sent.count("send") == 1
    assert sent.count("answer") == 1
    assert sent == ["send", "message", "attempt", "message", "message", "attempt", "message", "answer"]


def test_an_agent_that_may_still_be_at_work_is_asked_nothing(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "g.fabro").write_text(GRAPH)
    with FakeProvider([Reply(fault="silent")]) as provider:
        words = ("--backend", "openai", "--model", "fake-model")
        process = started(perdure, tmp_path / "g.fabro", *words, env=provider.environ)
        provider.wait(lambda requests: len(requests) == 1)
        until(lambda: perdure("session", "list", "--json").json != [])
        [session] = perdure("session", "list", "--json").succeeded().json
        refused = perdure("session", "send", session["sessionId"], "Why?", env=provider.environ)
        process.kill()
        process.wait()

    assert refused.code == 2
    assert "perdure steer" in refused.err


def test_a_follow_up_without_its_key_is_refused_and_nothing_is_written(perdure: Perdure, tmp_path: Path) -> None:
    with FakeProvider(WORK) as provider:
        session = _work(perdure, tmp_path, provider)
    before = perdure("session", "show", session, "--json").succeeded().json

    assert perdure("session", "send", session, "Why?", env={"OPENAI_API_KEY": ""}).code == 2
    assert perdure("session", "send", session, "  ").code == 2
    assert perdure("session", "send", "nobody", "Why?").code == 2
    assert perdure("session", "show", session, "--json").succeeded().json == before
