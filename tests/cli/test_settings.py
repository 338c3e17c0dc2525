"""What holds, and where it comes from; and what takes up space."""

from pathlib import Path
from typing import Any

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import HELLO


@pytest.fixture(autouse=True)
def layers(tmp_path: Path) -> None:
    (tmp_path / "hello.fabro").write_text(HELLO % '"true"')
    (tmp_path / "workflow.toml").write_text('graph = "hello.fabro"\n[llm]\nmodel = "mine"\n[vars]\na = "1"\n')
    (tmp_path / "fabro.toml").write_text(
        '[llm]\nmodel = "theirs"\nprovider = "p"\n[vars]\na = "2"\nb = "3"\n[sandbox.env]\nX_TOKEN = "abcdefgh"\nY_TOKEN = "${env.Y}"\n'
    )


def shown(perdure: Perdure, *arguments: str, **more: Any) -> dict[str, tuple[Any, str]]:
    found = perdure("settings", *arguments, "--json", **more).succeeded().json
    return {each["key"]: (each["value"], Path(each["source"]).name) for each in found}


def test_the_strongest_file_is_named_for_each_setting(perdure: Perdure) -> None:
    found = shown(perdure, "workflow.toml")

    assert found["llm.model"] == ("mine", "workflow.toml")
    assert found["llm.provider"] == ("p", "fabro.toml")
    assert (found["vars.a"], found["vars.b"]) == (("1", "workflow.toml"), ("3", "fabro.toml"))
    assert found["sandbox.local.worktree_mode"] == ("clean", "built-in")


def test_without_a_workflow_the_folders_settings_are_shown(perdure: Perdure) -> None:
    assert shown(perdure)["llm.model"] == ("theirs", "fabro.toml")


def test_secrets_are_masked_and_references_are_not(perdure: Perdure) -> None:
    found = shown(perdure)

    assert found["sandbox.env.X_TOKEN"][0] == "[masked]"
    assert found["sandbox.env.Y_TOKEN"][0] == "${env.Y}"
    assert "abcdefgh" not in perdure("settings").succeeded().out


def test_secrets_in_tables_are_masked_too(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "fabro.toml").write_text('[mcp_servers.x]\ncommand = "x"\n[mcp_servers.x.env]\nX_TOKEN = "abcdefgh"\n')

    assert shown(perdure)["mcp_servers.x"][0] == {"command": "x", "env": {"X_TOKEN": "[masked]"}}


def test_every_setting_of_a_file_can_be_shown() -> None:
    from perdure.graph.config import Config
    from perdure.service.settings import KEYS

    assert set(Config.__struct_fields__) - {"graph", "folder", "without_effect"} == set(KEYS)


def test_a_variable_of_the_environment_is_a_source_too(perdure: Perdure) -> None:
    found = shown(perdure, env={"PERDURE_DURABILITY": "normal"})

    assert found["store.durability"] == ("normal", "PERDURE_DURABILITY")
    assert found["state_home"][1] == "PERDURE_STATE_HOME"


def test_looking_makes_no_state(perdure: Perdure, tmp_path: Path) -> None:
    perdure("settings").succeeded()
    perdure("df").succeeded()

    assert not (tmp_path / "state").exists()


def test_the_parts_of_the_state_add_up_to_all_that_is_there(perdure: Perdure, tmp_path: Path) -> None:
    perdure("run", "workflow.toml", env={"Y": "1"}).succeeded()
    perdure("secret", "set", "NAME", stdin="a long value").succeeded()
    found = perdure("df", "--json").succeeded().json
    parts = {each["name"]: each for each in found["parts"]}

    assert parts["runs"]["count"] == 1
    assert parts["runs"]["reclaimable"] == 0
    assert found["bytes"] == sum(path.stat().st_size for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert "RECLAIMABLE" in perdure("df").succeeded().out


def test_what_pruning_would_take_is_reclaimable(perdure: Perdure, tmp_path: Path) -> None:
    from perdure.base.ids import now_ms
    from perdure.service.state import open_state_to_read
    from perdure.service.usage import usage_of

    perdure("run", "workflow.toml", env={"Y": "1"}).succeeded()
    state = open_state_to_read(str(tmp_path / "state"), {})
    try:
        [runs] = [each for each in usage_of(state, now_ms() + 1000) if each.name == "runs"]
    finally:
        state.close()

    assert 0 < runs.reclaimable <= runs.bytes
