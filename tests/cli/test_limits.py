"""Limits of the machine, as a person meets them: a file that is refused, a run that waits, and what `doctor` and `show` tell."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import started, until

GRAPH = 'digraph g { start [shape=Mdiamond] exit [shape=Msquare] a [prompt="x"] start -> a -> exit }'


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    path = tmp_path / "g.fabro"
    path.write_text(GRAPH)
    return path


def limits(state_home: Path, text: str) -> None:
    state_home.mkdir(mode=0o700, exist_ok=True)
    (state_home / "limits.json").write_text(text)


@pytest.fixture
def limited(state_home: Path) -> None:
    limits(state_home, '{"backends": {"command": 1}}')


@pytest.fixture
def busy(perdure: Perdure, limited: None, tmp_path: Path, workflow: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A run whose agent is at work until the test is over, even if the run's process is killed."""
    way = tmp_path / "go"
    os.mkfifo(way)
    writer = os.open(way, os.O_RDWR)
    process = started(perdure, workflow, "--command", f"cat {way}")
    until(lambda: "command: 1 of" in perdure("doctor").out)
    yield process
    os.close(writer)  # the agent reads the end
    process.wait()


@pytest.mark.parametrize("arguments", [["run"], ["run", "--detach"], ["create"]])
def test_bad_limits_stop_a_run_before_there_is_one(
    perdure: Perdure, state_home: Path, workflow: Path, arguments: list[str]
) -> None:
    limits(state_home, '{"backends": {"command": 0}}')
    ran = perdure(*arguments, workflow, "--backend", "simulated", "--json")

    assert (ran.code, json.loads(ran.err.splitlines()[-1])["error"]["code"]) == (2, "bad_limits")
    assert "between 1 and 100000" in ran.err
    assert perdure("ps", "-a", "--json").json == []


def test_bad_limits_stop_a_prune(perdure: Perdure, state_home: Path) -> None:
    limits(state_home, "{")
    ran = perdure("prune", "--yes")

    assert (ran.code, "not valid JSON" in ran.err) == (2, True)


def test_bad_limits_are_an_error_of_the_doctor_and_no_hindrance_for_looking(perdure: Perdure, state_home: Path) -> None:
    limits(state_home, '{"backends": {"gpt": 4}}')
    ran = perdure("doctor")

    assert ran.code == 2
    assert "✗ limits.json" in ran.out
    assert "unknown variant 'gpt'" in ran.out
    perdure("ps").succeeded()


def test_a_run_that_is_parked_can_be_cancelled_under_bad_limits(
    perdure: Perdure, state_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "g.fabro").write_text(
        "digraph g { start [shape=Mdiamond] exit [shape=Msquare] h [shape=hexagon] start -> h -> exit }"
    )
    perdure("run", "g.fabro")
    limits(state_home, "{")
    [run] = perdure("ps", "-a", "--json").json

    perdure("cancel", run["run_id"]).succeeded()


def test_one_run_waits_for_another_of_the_machine_and_everything_tells_so(
    perdure: Perdure, busy: "subprocess.Popen[bytes]", workflow: Path
) -> None:
    ran = perdure("run", "--detach", workflow, "--command", "echo done", "--json").succeeded()
    run_id = ran.json["run_id"]

    def shown() -> list[dict[str, str]]:
        found: list[dict[str, str]] = perdure("show", run_id, "--json").json["slot_waits"]
        return found

    until(lambda: len(shown()) == 1)
    why = "Waiting for a free command slot: the only one is in use on this machine (limits.json)."
    assert (shown()[0]["step"], shown()[0]["text"]) == ("a", why)
    assert f"a: {why}" in perdure("show", run_id).out
    assert "RUNNING" in perdure("show", run_id).out
    doctor = perdure("doctor").out
    assert f"command: step a of run {run_id} waits since" in doctor

    busy.kill()
    busy.wait()
    assert perdure("wait", run_id).succeeded()
    assert shown() == []
    assert "slot: " not in perdure("doctor").out


def test_the_doctor_names_a_slot_whose_process_is_gone(perdure: Perdure, busy: "subprocess.Popen[bytes]") -> None:
    busy.kill()
    busy.wait()

    assert "! slot: command: step a of run" in perdure("doctor").out
    assert "that process is gone" in perdure("doctor").out
