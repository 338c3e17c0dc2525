"""Settings that cannot be followed are refused or told: commands never run elsewhere than a person wanted."""

from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import HELLO


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    (tmp_path / "hello.fabro").write_text(HELLO % '"touch ran"')
    return tmp_path / "workflow.toml"


def settings(workflow: Path, text: str) -> None:
    workflow.write_text(f'version = 1\ngraph = "hello.fabro"\n{text}\n')


@pytest.mark.parametrize("provider", ["docker", "daytona", "elsewhere"])
def test_a_sandbox_that_is_not_there_is_refused_and_nothing_runs(
    perdure: Perdure, workflow: Path, provider: str
) -> None:
    settings(workflow, f'[sandbox]\nprovider = "{provider}"')
    ran = perdure("run", "workflow.toml")

    assert ran.code == 2
    assert f"'{provider}'" in ran.err
    assert not (workflow.parent / "ran").exists()
    assert perdure("validate", "workflow.toml").code == 2


def test_a_person_may_say_that_commands_run_here_all_the_same(perdure: Perdure, workflow: Path) -> None:
    settings(workflow, '[sandbox]\nprovider = "docker"')
    perdure("run", "workflow.toml", "--sandbox", "local").succeeded()

    assert perdure("run", "hello.fabro", "--sandbox", "docker").code == 2


@pytest.mark.parametrize("table", ["pull_request", "github", "sandbox.docker", "sandbox.daytona"])
def test_a_table_without_effect_is_told(perdure: Perdure, workflow: Path, table: str) -> None:
    settings(workflow, f"[{table}]\nenabled = true")

    assert f"[{table}] has no effect" in perdure("run", "workflow.toml").succeeded().err
    assert "setting_without_effect" in perdure("validate", "workflow.toml").succeeded().err


def test_a_worktree_is_preserved_when_a_setting_or_a_flag_says_so(perdure: Perdure, repository: Path) -> None:
    (repository.parent / "hello.fabro").write_text(HELLO % '"touch ran"')
    workflow = repository.parent / "workflow.toml"
    settings(workflow, "[sandbox]\npreserve = true")
    perdure("run", workflow, cwd=repository).succeeded()
    perdure("run", repository.parent / "hello.fabro", "--preserve-sandbox", cwd=repository).succeeded()

    assert len([*(repository.parent / "state" / "runs").glob("*/worktree/ran")]) == 2
