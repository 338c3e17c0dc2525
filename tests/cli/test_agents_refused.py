"""What keeps a run with agents from starting is said before anything starts; what comes up later costs no work."""

import os
import subprocess
import sys
from pathlib import Path
from queue import Queue

import pytest

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.testing.providers import Call, FakeProvider, Reply

from .workflows import only_run

GRAPH = "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt=p%s]; start -> a -> exit }"
MODEL = ("--backend", "openai", "--model", "fake-model")


@pytest.mark.parametrize(
    ("attributes", "words", "told"),
    [
        ("", (), "Nothing says who answers it"),
        ("", ("--backend", "openai"), "needs a model"),
        ("", MODEL, "OPENAI_API_KEY"),
        ("", ("--backend", "openai-compatible", "--model", "m"), "needs a base URL"),
        ("", ("--backend", "nobody"), "There is no backend 'nobody'"),
        (', output_schema="{"', MODEL, "output_schema is no JSON"),
        (', output_schema="{\\"type\\": 5}"', MODEL, "schema for answers cannot be used"),
        ("", (*MODEL, "--budget-usd", "1"), "nobody knows the price of openai/fake-model"),
        ("", ("--backend", "codex", "--budget-usd", "1"), "codex does not tell what it costs"),
        (', budget_usd="1"', MODEL, "nobody knows the price of openai/fake-model"),
        (', budget_usd="much"', MODEL, "budget_usd is 'much'"),
    ],
)
def test_agents_that_cannot_be_asked_are_refused_before_anything_starts(
    perdure: Perdure, state_home: Path, tmp_path: Path, attributes: str, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / "g.fabro").write_text(GRAPH % attributes)
    done = perdure("run", "g.fabro", *words, env={"OPENAI_API_KEY": ""})

    assert done.code == 2
    assert told in done.err
    assert not list(state_home.glob("runs/*"))


def test_a_key_that_is_missing_when_a_run_goes_on_pauses_it(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "g.fabro").write_text(
        "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; gate [shape=hexagon]; a [prompt=p]; start -> gate; gate -> a [label=Y]; a -> exit }"
    )
    with FakeProvider([Reply(text="Done.")]) as provider:
        assert perdure("run", "g.fabro", *MODEL, env=provider.environ).code == 4
        perdure("answer", "g", "Y")
        paused = perdure("resume", "g", env={**provider.environ, "OPENAI_API_KEY": ""})
        assert paused.code == 4
        assert only_run(perdure)["status"] == "paused"
        assert "OPENAI_API_KEY" in perdure("show", "g").succeeded().out

        perdure("resume", "g", env=provider.environ).succeeded()


def test_a_budget_pauses_a_run_until_somebody_grants_more(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "g.fabro").write_text(GRAPH.replace("a -> exit", "a -> b -> exit; b [prompt=q]") % "")
    with FakeProvider([Reply(text="One."), Reply(text="Two.")]) as provider:
        paused = perdure("run", "g.fabro", *MODEL, "--budget-tokens", "15", env=provider.environ)
        assert paused.code == 4
        assert "15 tokens" in perdure("show", "g").succeeded().out
        assert len(provider.requests) == 1

        perdure("resume", "g", "--budget-tokens", "100", env=provider.environ).succeeded()
        assert len(provider.requests) == 2
    assert "30 tokens, 2 turns, cost unknown" in perdure("show", "g").succeeded().out
    assert only_run(perdure)["usage"]["total_tokens"] == 30  # type: ignore[index]
    assert "COST" in perdure("ps", "-a").succeeded().out


def test_a_run_keeps_the_prices_that_it_began_with(perdure: Perdure, state_home: Path, tmp_path: Path) -> None:
    (tmp_path / "g.fabro").write_text(GRAPH.replace("a -> exit", "a -> b -> exit; b [prompt=q]") % "")
    state_home.mkdir(parents=True, exist_ok=True)
    (state_home / "prices.json").write_text('{"openai/*": {"input": 100000, "output": 0}}')
    with FakeProvider([Reply(text="One."), Reply(text="Two.")]) as provider:
        perdure("preflight", "g.fabro", *MODEL, "--budget-usd", "1", env=provider.environ).succeeded()
        assert perdure("run", "g.fabro", *MODEL, "--budget-usd", "1", env=provider.environ).code == 4
        (state_home / "prices.json").write_text('{"openai/*": {"input": 0, "output": 0}}')
        perdure("resume", "g", "--budget-usd", "5", env=provider.environ).succeeded()

    assert only_run(perdure)["usage"]["cost"] == 2.0  # type: ignore[index]


def test_what_was_used_before_a_kill_in_the_midst_of_a_turn_counts(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "g.fabro").write_text(GRAPH % "")
    owners: Queue[subprocess.Popen[bytes]] = Queue()
    asked: list[object] = []

    def script(request: object) -> Reply:
        asked.append(request)
        if len(asked) == 2:
            owner = owners.get(timeout=20)
            owner.kill()
            owner.wait()
        return Reply(tool_calls=[Call("glob", {"pattern": f"{len(asked)}*"})])

    with FakeProvider(script) as provider:
        words = ["run", "g.fabro", *MODEL, "--budget-tokens", "30"]
        owner = subprocess.Popen(
            [sys.executable, "-m", "perdure.cli.entry", *words],
            cwd=tmp_path,
            env={**os.environ, **provider.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        owners.put(owner)
        owner.wait(timeout=30)
        assert perdure("resume", "g", env=provider.environ).code == 4

    # The second turn is asked again, as nothing of it was recorded; a third one is too much.
    assert len(asked) == 3
    assert "has used 30 tokens" in perdure("show", "g").succeeded().out


@pytest.mark.parametrize("text", ["[budget]\nusd = 'much'", "[budget]\ntime = 5", "[budget]\ntokens = 1.5"])
def test_a_budget_that_is_not_understood_is_refused(perdure: Perdure, tmp_path: Path, text: str) -> None:
    (tmp_path / ".perdure").mkdir()
    (tmp_path / ".perdure" / "settings.toml").write_text(text)
    (tmp_path / "g.fabro").write_text(GRAPH % "")

    assert perdure("run", "g.fabro", "--command", "true").code == 2
