"""The settings of tools: what they say is what holds, and a mistake in them is named."""

import sys
from typing import Any

import pytest

from perdure.agents.tools.permissions import Policy
from perdure.agents.tools.settings import BadToolSettings, ToolSettings, tool_settings, toolbox
from perdure.agents.tools.skills import Skill


def test_without_settings_files_may_be_written_and_no_command_run() -> None:
    assert tool_settings({}, {}).policy(is_attended=False) == Policy("read-write")


def test_every_setting_reaches_the_policy() -> None:
    found = tool_settings(
        {"permissions": "full", "sandbox": "bwrap", "network": True, "deny": ["fetch"], "modes": {"execute": "ask"}}, {}
    )
    assert found.policy(is_attended=True) == Policy("full", ("fetch",), {"execute": "ask"}, True, True, "ask")


@pytest.mark.parametrize(
    ("agents", "servers", "why"),
    [
        ({"permissions": "all"}, {}, "permissions"),
        ({"sandbx": "bwrap"}, {}, "sandbx"),
        ({}, {"a": {}}, "command or a url"),
        ({}, {"a": {"command": "x", "url": "http://a"}}, "command or a url"),
        ({}, {"a": {"command": "x", "args": "y"}}, "args"),
    ],
)
def test_a_mistake_is_named(agents: dict[str, Any], servers: dict[str, Any], why: str) -> None:
    with pytest.raises(BadToolSettings, match=why):
        tool_settings(agents, servers)


def test_a_denied_tool_is_not_offered() -> None:
    names = toolbox(ToolSettings(deny=["shell"]), [Skill("a", "b", "/c")]).names
    assert names == ["read", "write", "edit", "list", "glob", "grep", "read_output", "fetch", "skill"]


def test_tools_are_told_to_a_model_without_a_heavy_import() -> None:
    import subprocess

    code = (
        "import sys; from perdure.agents.tools.settings import ToolSettings, toolbox; toolbox(ToolSettings(), []).definitions(); "
        "print({'mcp', 'httpx2', 'pydantic', 'openai', 'anthropic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
