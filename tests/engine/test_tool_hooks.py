"""Hooks around the use of a tool, and around the folder that a run works in."""

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Graphs
from .test_hooks import TELL, lines, run

BODY = 'a [shape=parallelogram, script="{}"] start -> a -> exit'


def tools(*events: str, command: str = TELL) -> list[dict[str, Any]]:
    return [{"event": event, "command": command} for event in events]


def test_the_hooks_of_a_tool_are_called_around_a_script(graphs: Graphs) -> None:
    events = ("pre_tool_use", "post_tool_use", "post_tool_use_failure")
    run(graphs, *tools(*events), body=BODY.format("echo script >> called"))
    assert lines(graphs) == ["pre_tool_use a", "script", "post_tool_use a"]

    run(graphs, *tools(*events), body=BODY.format("exit 3"))
    assert lines(graphs)[3:] == ["pre_tool_use a", "post_tool_use_failure a"]


def test_a_tools_hook_is_told_what_is_used_and_what_came_of_it(graphs: Graphs) -> None:
    told = 'cat > "$PERDURE_EVENT.json"; echo "$PERDURE_TOOL_NAME" > name'
    run(graphs, *tools("pre_tool_use", "post_tool_use_failure", command=told), body=BODY.format("echo out; exit 3"))
    before, after = [
        json.loads((graphs.work / f"{event}.json").read_text()) for event in ("pre_tool_use", "post_tool_use_failure")
    ]

    assert before["tool_input"] == {"script": "echo out; exit 3", "language": "shell"}
    assert (after["output"], "exit code 3" in after["failure"]) == ("out", True)
    assert (graphs.work / "name").read_text() == "command\n"


def test_a_matcher_finds_a_tools_name(graphs: Graphs) -> None:
    hook = {"event": "pre_tool_use", "matcher": "^command$", "command": TELL}
    run(graphs, hook, {**hook, "matcher": "^browser$"}, body=BODY.format("true"))

    assert lines(graphs) == ["pre_tool_use a"]


@pytest.mark.parametrize(
    ("command", "status"), [("echo no >&2; exit 2", "failed"), ("""echo '{"decision": "skip"}'""", "succeeded")]
)
def test_a_tool_that_a_hook_forbids_is_not_used(graphs: Graphs, command: str, status: str) -> None:
    result = run(graphs, *tools("pre_tool_use", command=command), body=BODY.format("touch used"))

    assert result.status == status
    assert not (graphs.work / "used").exists()


def test_a_hook_after_a_tool_counts_when_it_is_said_to_be_blocking(graphs: Graphs) -> None:
    hook = {"event": "post_tool_use", "command": "echo bad >&2; exit 2", "blocking": True}
    result = run(graphs, hook, body=BODY.format("true"))

    assert "bad" in graphs.failure(result)


def test_the_graphs_own_tool_hooks_are_called_and_a_nodes_beats_them(graphs: Graphs) -> None:
    body = (
        'tool_hooks.pre="echo pre $PERDURE_NODE_ID >> called" tool_hooks.post="echo post $PERDURE_NODE_ID >> called" '
        'a [shape=parallelogram, script="true"] '
        'b [shape=parallelogram, script="touch used", tool_hooks.pre="exit 1"] start -> a -> b -> exit'
    )
    result = graphs.run(body, ending="dot")

    assert result.status == "failed"
    assert lines(graphs) == ["pre a", "post a"]
    assert not (graphs.work / "used").exists()


def test_a_tool_that_was_used_calls_its_hooks_once_also_in_a_resumed_run(graphs: Graphs) -> None:
    body = (
        'a [shape=parallelogram, script="true"] gate [shape=hexagon] start -> a -> gate; gate -> exit [label="[Y] Yes"]'
    )
    assert run(graphs, *tools("pre_tool_use", "post_tool_use"), body=body).status == "waiting"
    graphs.answer("Y")
    assert graphs.resume().status == "succeeded"

    assert lines(graphs) == ["pre_tool_use a", "post_tool_use a"]


def test_the_hooks_of_the_folder_are_called_before_the_setup_and_at_the_end(graphs: Graphs) -> None:
    hooks = tools("run_start", "sandbox_ready", "run_complete", "sandbox_cleanup")
    run(graphs, *hooks, body=BODY.format("echo node >> called"), setup=["echo setup >> called"])

    assert lines(graphs) == ["run_start ", "sandbox_ready ", "setup", "node", "run_complete ", "sandbox_cleanup "]


def test_a_folder_that_is_not_ready_ends_the_run_before_its_first_node(graphs: Graphs) -> None:
    result = run(graphs, *tools("sandbox_ready", command="exit 2"), body=BODY.format("touch used"))

    assert result.outcome is not None
    assert result.outcome.reason == "blocked_by_hook"
    assert not (graphs.work / "used").exists()


def test_a_hook_may_keep_the_worktree(graphs: Graphs, repository: Path) -> None:
    git = {"git": "worktree", "repository": str(repository), "working_directory": str(repository)}
    hook = {"event": "sandbox_cleanup", "command": "exit 2", "blocking": True}
    assert run(graphs, hook, body=BODY.format("echo x > x"), **git).status == "succeeded"

    assert (graphs.folder / "runs" / graphs.run_id / "worktree" / "x").exists()
