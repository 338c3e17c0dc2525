"""`perdure models` as a program, against a provider on loopback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.providers import FakeProvider

NAMES = ("zeta-1", "alpha", "mid-2")


@pytest.mark.parametrize("backend", ["openai", "anthropic", "openai-compatible"])
def test_models_are_listed_in_the_providers_order(perdure: Callable[..., Any], backend: str) -> None:
    with FakeProvider(models=NAMES) as provider:
        env = provider.environ
        text = perdure("models", backend, env=env).succeeded().out
        found = perdure("models", backend, "--json", env=env).succeeded().json

    assert [line.split("\t")[0] for line in text.splitlines()] == list(NAMES)
    assert found["backend"] == backend
    assert [each["slug"] for each in found["models"]] == list(NAMES)
    assert found["models"][0].keys() == {"slug", "display_name"}


def test_the_base_url_may_be_given_or_set(perdure: Callable[..., Any], state_home: Path) -> None:
    with FakeProvider(models=NAMES, key="") as provider:
        given = perdure("models", "openai-compatible", "--base-url", provider.openai_url).succeeded().out
        state_home.mkdir(mode=0o700)
        (state_home / "settings.toml").write_text(f'[backend]\nbase_url = "{provider.openai_url}"\n')
        found = perdure("models", "openai-compatible").succeeded().out

    assert given == found != ""


def test_a_key_may_lie_in_the_state(perdure: Callable[..., Any], state_home: Path) -> None:
    (state_home / "auth").mkdir(parents=True, mode=0o700)
    with FakeProvider(models=NAMES) as provider:
        key = state_home / "auth" / "anthropic"
        key.touch(mode=0o600)
        key.write_text(f"{provider.key}\n")
        perdure("models", "anthropic", env={"ANTHROPIC_BASE_URL": provider.url}).succeeded()


def test_a_key_in_the_state_is_masked_in_what_a_run_writes(
    perdure: Callable[..., Any], state_home: Path, tmp_path: Path
) -> None:
    (state_home / "auth").mkdir(parents=True, mode=0o700)
    (state_home / "auth" / "openai").write_text("plain-words-key\n")
    graph = 'digraph G { start [shape=Mdiamond]; exit [shape=Msquare]; a [shape=parallelogram, script="echo plain-words-key"]; start -> a -> exit }'
    (tmp_path / "graph.fabro").write_text(graph)
    perdure("run", "graph.fabro").succeeded()
    written = b"".join(path.read_bytes() for path in state_home.rglob("stdout.log"))

    assert b"[masked]" in written
    assert b"plain-words-key" not in written


def test_a_missing_key_is_an_error_of_the_environment_that_names_both_ways(
    perdure: Callable[..., Any], state_home: Path
) -> None:
    done = perdure("models", "openai", env={"OPENAI_API_KEY": ""})

    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err
    assert f"{state_home}/auth/openai" in done.err
    assert not state_home.exists()


def test_a_wrong_key_fails_and_is_not_printed(perdure: Callable[..., Any]) -> None:
    with FakeProvider(models=NAMES) as provider:
        done = perdure("models", "openai", env={**provider.environ, "OPENAI_API_KEY": "wrong-key-123"})

    assert done.code == 1
    assert "401" in done.err
    assert "wrong-key-123" not in done.err + done.out


def test_a_backend_that_is_none_is_refused_with_those_that_are(perdure: Callable[..., Any]) -> None:
    done = perdure("models", "gemini")

    assert done.code == 2
    assert "openai, anthropic, openai-compatible, local" in done.err
