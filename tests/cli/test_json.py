"""Programs read standard output: with `--json` it is JSON or empty, whatever happens, and errors are JSON too."""

import json
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED

COMMANDS = [
    ["ps"], ["ps", "-a"], ["questions"], ["questions", "gated"], ["show", "gated"], ["inspect", "gated"], ["diff", "gated"],
    ["validate", "gated.fabro"], ["validate", "bad.fabro"], ["parse", "gated.fabro"], ["parse", "bad.fabro"],
    ["graph", "gated.fabro"], ["graph", "gated.fabro", "-o", "x.svg"], ["graph", "bad.fabro"], ["new", "graph", "mine"],
    ["doctor"], ["artifact", "list", "gated"], ["artifact", "cp", "gated", "out"], ["workflow", "list"], ["pause", "gated"],
    ["steer", "gated", "hello"], ["export", "gated", "-o", "whole"], ["rewind", "gated", "--list"], ["fork", "gated"],
    ["rm", "gated"], ["wait", "gated", "--timeout", "0.1"], ["attach", "gated"], ["rebuild", "gated"], ["rebuild", "--store"],
    ["rebuild"], ["prune", "--older-than", "0m"], ["prune", "--older-than", "never"], ["show", "nothing"], ["run", "nothing"],
    ["answer", "gated", "perhaps"], ["answer", "gated", "Y"], ["resume", "gated", "--accept-changes", "--keep-recorded"],
    ["create", "gated.fabro"], ["create", "bad.fabro"], ["run", "gated.fabro"], ["cancel", "gated"], ["no-such-command"],
    ["ps", "--no-such-option"], ["preflight", "gated.fabro"], ["preflight", "bad.fabro"], ["settings"], ["settings", "gated.fabro"],
    ["df"], ["secret", "list"], ["secret", "set", "no-name"], ["secret", "rm", "NOTHING"],
]  # fmt: skip
LINES = [["logs", "gated"], ["logs", "-p", "gated"], ["watch", "gated"]]


@pytest.fixture
def waiting(perdure: Perdure, tmp_path: Path) -> None:
    """A run that waits for an answer."""
    (tmp_path / "gated.fabro").write_text(GATED)
    (tmp_path / "bad.fabro").write_text("digraph bad { start -> }")
    assert perdure("run", "gated.fabro").code == 4


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_standard_output_is_json_or_empty_and_errors_are_json(perdure: Perdure, arguments: list[str]) -> None:
    ran = perdure("--json", *arguments, env={"PYTHONWARNINGS": "error"})

    if ran.out:
        json.loads(ran.out)
    if ran.code == 2 and not ran.out:
        assert json.loads(ran.err.splitlines()[-1])["error"].keys() == {"code", "message", "hint"}
    assert "Traceback" not in ran.err


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("arguments", LINES, ids=" ".join)
def test_events_are_one_json_object_a_line(perdure: Perdure, arguments: list[str]) -> None:
    events = [json.loads(line) for line in perdure("--json", *arguments).out.splitlines()]

    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_a_variable_asks_for_json_as_the_option_does(perdure: Perdure) -> None:
    assert perdure("ps", env={"PERDURE_JSON": "1"}).json == []
    assert "error" in json.loads(perdure("show", "nothing", env={"PERDURE_JSON": "1"}).err)


@pytest.mark.usefixtures("waiting")
def test_ids_alone_are_plain_lines_also_with_json(perdure: Perdure) -> None:
    ran = perdure("--json", "ps", "-q")

    assert len(ran.out.strip()) == 26
