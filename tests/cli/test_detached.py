"""Detached runs: a process of their own that is there when the command returns, or a clear word why not."""

import json
import os
import signal
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.disk.process import started_at

from .workflows import GATED, HELLO, only_run, until

pytestmark = pytest.mark.crash


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A workflow that waits for a file."""
    path = tmp_path / "hello.fabro"
    path.write_text(HELLO % '"touch gate; while [ ! -f go ]; do sleep 0.02; done"')
    return path


def test_the_process_owns_the_run_when_the_command_returns(
    perdure: Perdure, slow: Path, tmp_path: Path, state_home: Path
) -> None:
    got = perdure("run", "-d", slow, "--json").succeeded().json
    run = only_run(perdure)
    record = json.loads((state_home / f"launchers/{run['run_id']}.json").read_text())

    assert run["status"] == "running"
    assert started_at(got["pid"]) is not None
    assert os.getsid(got["pid"]) == got["pid"]
    assert record["pid"] == got["pid"]
    assert record["run_dir"] == run["run_dir"]
    assert record["resume"] is False
    assert Path(record["log_path"]).exists()
    assert f"pid {got['pid']}" in perdure("show", "hello").out
    (tmp_path / "go").touch()
    perdure("wait", "hello", "--timeout", "20").succeeded()


def test_a_killed_detached_run_is_interrupted_and_goes_on_detached(
    perdure: Perdure, slow: Path, tmp_path: Path, state_home: Path
) -> None:
    pid = perdure("run", "-d", slow, "--json").succeeded().json["pid"]
    until((tmp_path / "gate").exists)
    os.kill(pid, signal.SIGKILL)
    until(lambda: only_run(perdure)["status"] == "interrupted")
    perdure("resume", "-d", "hello").succeeded()

    record = json.loads((state_home / f"launchers/{only_run(perdure)['run_id']}.json").read_text())
    assert record["resume"] is True
    (tmp_path / "go").touch()
    perdure("wait", "hello", "--timeout", "20").succeeded()


def test_a_request_to_end_pauses_a_detached_run(perdure: Perdure, slow: Path, tmp_path: Path) -> None:
    pid = perdure("run", "-d", slow, "--json").succeeded().json["pid"]
    until((tmp_path / "gate").exists)
    os.kill(pid, signal.SIGTERM)
    until(lambda: only_run(perdure)["status"] == "paused")

    (tmp_path / "go").touch()
    perdure("resume", "hello").succeeded()


def test_what_keeps_a_process_from_starting_is_told(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    (tmp_path / "gated.fabro").write_text(GATED.replace("echo after", "echo changed"))
    got = perdure("resume", "-d", "gated")

    assert got.code == 2
    assert "node after: script" in got.err
    assert only_run(perdure)["status"] == "waiting"
    perdure("resume", "-d", "gated", "--keep-recorded").succeeded()
    perdure("answer", "gated", "Y").succeeded()
    perdure("wait", "gated", "--timeout", "20").succeeded()
    assert (tmp_path / "count").read_text().split() == ["before", "after"]


def test_pause_stops_after_the_present_step_and_steer_reaches_the_run(
    perdure: Perdure, slow: Path, tmp_path: Path
) -> None:
    perdure("run", "-d", slow).succeeded()
    until((tmp_path / "gate").exists)
    perdure("steer", "hello", "mind the gap").succeeded()
    perdure("pause", "hello").succeeded()
    until(lambda: "run.pause_requested" in perdure("logs", "hello").out)
    (tmp_path / "go").touch()
    until(lambda: only_run(perdure)["status"] == "paused")

    assert "mind the gap" in perdure("logs", "hello").out
    perdure("resume", "hello").succeeded()
    steps = {step["node_id"]: step["attempts"] for step in perdure("show", "hello", "--json").json["steps"]}
    assert steps["hi"] == 1


def test_logs_follow_a_run_to_its_end(perdure: Perdure, slow: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    perdure("run", "-d", slow).succeeded()
    until((tmp_path / "gate").exists)
    reader = subprocess.Popen(
        [sys.executable, "-m", "perdure.cli.entry", "logs", "-f", "hello"], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    first = reader.stdout.readline()
    (tmp_path / "go").touch()
    events = [json.loads(line) for line in [first, *reader.stdout]]
    reader.stdout.close()

    assert reader.wait(20) == 0
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["event"] == "run.completed"
