"""Preflight says whether a workflow would run, and leaves everything as it is."""

from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import HELLO

AGENT = "digraph a { start [shape=Mdiamond] exit [shape=Msquare] do [prompt=x] start -> do -> exit }"


@pytest.fixture(autouse=True)
def hello(tmp_path: Path) -> None:
    (tmp_path / "hello.fabro").write_text(HELLO % '"touch ran"')


def failed(perdure: Perdure, *arguments: str | Path, cwd: Path | None = None) -> list[str]:
    ran = perdure("preflight", *arguments, "--json", cwd=cwd)
    names = [each["name"] for each in ran.json["checks"] if each["level"] == "failed"]
    assert (ran.code, ran.json["ok"]) == ((1, False) if names else (0, True))
    return names


def test_a_workflow_that_would_run_passes_and_nothing_is_made(perdure: Perdure, tmp_path: Path) -> None:
    assert failed(perdure, "hello.fabro") == []
    assert "✓ graph: hello: 3 nodes" in perdure("preflight", "hello.fabro").out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hello.fabro"]


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("digraph bad { start -> }", "graph"),
        ("digraph bad { start [shape=Mdiamond] }", "graph"),
        (AGENT, "backend"),
    ],
)
def test_what_is_wrong_with_a_graph_is_a_failed_check(perdure: Perdure, tmp_path: Path, text: str, check: str) -> None:
    (tmp_path / "x.fabro").write_text(text)

    assert set(failed(perdure, "x.fabro")) == {check}


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ('[[hooks]]\nevent = "run_strat"\ncommand = "x"', "settings"),
        ('[sandbox]\nprovider = "docker"', "sandbox"),
        ('[sandbox.env]\nX = "${secret.NOBODY}"', "backend"),
        ('[sandbox.local]\nworktree_mode = "sometimes"', "repository"),
    ],
)
def test_what_is_wrong_with_settings_is_a_failed_check(perdure: Perdure, tmp_path: Path, text: str, check: str) -> None:
    (tmp_path / "workflow.toml").write_text(f'graph = "hello.fabro"\n{text}\n')

    assert failed(perdure, "workflow.toml") == [check]


def test_every_failed_check_is_told_and_not_only_the_first(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "x.fabro").write_text(AGENT)
    (tmp_path / "workflow.toml").write_text('graph = "x.fabro"\n[sandbox]\nprovider = "docker"\n')

    assert failed(perdure, "workflow.toml", "--command", "no-such-program") == ["sandbox", "programs"]


def test_what_a_run_does_in_git_is_told(perdure: Perdure, repository: Path) -> None:
    workflow = repository.parent / "hello.fabro"
    assert "a worktree of its own" in perdure("preflight", workflow, cwd=repository).succeeded().out

    (repository / "README").write_text("changed")
    assert "in place, without checkpoints" in perdure("preflight", workflow, cwd=repository).succeeded().out


def test_a_state_home_that_cannot_be_used_is_a_failed_check(perdure: Perdure, repository: Path) -> None:
    workflow = repository.parent / "hello.fabro"
    ran = perdure("--state-dir", repository / "state", "preflight", workflow, "--json", cwd=repository)

    assert [each["name"] for each in ran.json["checks"] if each["level"] == "failed"] == ["repository"]
