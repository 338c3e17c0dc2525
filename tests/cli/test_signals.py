"""Requests to stop: the first pauses the run, the second ends everything at once; neither costs anything that was recorded."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import HELLO, is_gone, only_run, started, until

STUBBORN = (
    "echo $$ > pid; trap '' TERM; if [ ! -f gate ]; then touch gate; sleep 60 & echo $! > child; wait; sleep 60; fi"
)
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def working(tmp_path: Path, perdure: Perdure) -> subprocess.Popen[bytes]:
    """A run in the middle of a command that heeds no request to end."""
    (tmp_path / "hello.fabro").write_text(HELLO % json.dumps(STUBBORN))
    process = started(perdure, tmp_path / "hello.fabro")
    until((tmp_path / "child").exists)
    return process


@pytest.mark.crash
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_one_signal_pauses_the_run_when_its_processes_are_gone(
    perdure: Perdure, tmp_path: Path, working: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    working.send_signal(number)

    assert working.wait(20) == 130
    assert only_run(perdure)["status"] == "paused"
    assert is_gone(tmp_path / "pid")
    assert is_gone(tmp_path / "child")
    perdure("resume", "hello").succeeded()


@pytest.mark.crash
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_second_signal_ends_all_at_once_and_the_run_goes_on_later(
    perdure: Perdure, tmp_path: Path, working: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    working.send_signal(number)
    working.send_signal(signal.SIGINT if number != signal.SIGINT else signal.SIGTERM)

    # The stubborn command would have had two seconds to go by itself.
    assert working.wait(1.5) == 130
    assert only_run(perdure)["status"] in ("interrupted", "paused")
    assert is_gone(tmp_path / "pid")
    assert is_gone(tmp_path / "child")
    perdure("resume", "hello").succeeded()


@pytest.mark.crash
def test_a_hang_up_that_was_to_be_ignored_is_ignored(perdure: Perdure, tmp_path: Path) -> None:
    """As with `nohup`: the run outlives its terminal."""
    (tmp_path / "hello.fabro").write_text(HELLO % json.dumps("touch gate; while [ ! -f go ]; do sleep 0.02; done"))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = started(perdure, tmp_path / "hello.fabro")
    finally:
        signal.signal(signal.SIGHUP, before)
    until((tmp_path / "gate").exists)
    os.kill(process.pid, signal.SIGHUP)
    (tmp_path / "go").touch()

    assert process.wait(20) == 0
