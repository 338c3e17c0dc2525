"""A person at a real terminal: questions are asked there, may be answered from elsewhere, and Ctrl-C does what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .terminals import Terminal
from .workflows import GATED, HELLO, is_gone, only_run, until

pytestmark = pytest.mark.crash


@pytest.fixture(autouse=True)
def gated(tmp_path: Path, state_home: Path) -> Path:
    """A workflow with a gate."""
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    return path


def count(tmp_path: Path) -> list[str]:
    """What was done."""
    return (tmp_path / "count").read_text().split()


def test_a_gate_is_asked_at_the_terminal_until_the_answer_is_a_choice(tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "gated.fabro") as terminal:
        terminal.see("Go on?")
        terminal.see("[Y] Yes")
        terminal.see("> ")
        terminal.type("perhaps\n")
        terminal.see("is no choice")
        terminal.type("\n")
        terminal.type("yes\n")
        terminal.see("SUCCEEDED")
        assert terminal.ended() == 0
    assert count(tmp_path) == ["before", "after"]


def test_an_answer_from_another_terminal_takes_the_prompt_away(perdure: Perdure, tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "gated.fabro") as terminal:
        terminal.see("> ")
        assert "goes on" in perdure("answer", "gated", "Y").succeeded().out
        terminal.see("SUCCEEDED")
        assert terminal.ended() == 0


def test_an_answer_in_a_file_takes_the_prompt_away(perdure: Perdure, tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "gated.fabro") as terminal:
        terminal.see("> ")
        runtime = Path(str(only_run(perdure)["run_dir"]), "runtime")
        (runtime / "new").write_text(json.dumps({"value": {"Selected": "N"}, "selected_option": "N", "text": None}))
        (runtime / "new").rename(runtime / "interview_response.json")
        assert terminal.ended() == 0
    assert count(tmp_path) == ["before"]


def test_the_end_of_input_is_no_answer_and_leaves_the_question_to_others(perdure: Perdure, tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "gated.fabro") as terminal:
        terminal.see("> ")
        terminal.type("\x04")
        terminal.see("works from elsewhere")
        assert only_run(perdure)["status"] == "waiting"
        perdure("answer", "gated", "N").succeeded()
        assert terminal.ended() == 0
    assert count(tmp_path) == ["before"]


def test_ctrl_c_at_a_question_leaves_a_run_that_goes_on(perdure: Perdure, tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "gated.fabro") as terminal:
        terminal.see("> ")
        terminal.type("\x03")
        terminal.see("Stopping")
        terminal.see("perdure resume")
        assert terminal.ended() == 130
    with Terminal(tmp_path, "resume", "gated") as terminal:
        terminal.see("> ")
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert count(tmp_path) == ["before", "after"]


def test_ctrl_c_twice_stops_at_once(perdure: Perdure, tmp_path: Path) -> None:
    script = "echo $$ > pid; trap '' TERM INT; touch gate; sleep 60; sleep 60"
    (tmp_path / "hello.fabro").write_text(HELLO % json.dumps(script))
    with Terminal(tmp_path, "run", "hello.fabro") as terminal:
        until((tmp_path / "gate").exists)
        terminal.type("\x03")
        terminal.see("once more")
        terminal.type("\x03")
        terminal.see("Stopped at once", limit_s=1.5)
        assert terminal.ended(2) == 130
    assert is_gone(tmp_path / "pid")
    assert only_run(perdure)["status"] == "interrupted"


def test_a_closed_terminal_pauses_the_run(perdure: Perdure, tmp_path: Path) -> None:
    with Terminal(tmp_path, "run", "gated.fabro") as terminal:
        terminal.see("> ")
        terminal.process.send_signal(1)
        assert terminal.ended() == 130
    assert only_run(perdure)["status"] == "paused"


def test_attach_tells_what_was_asks_and_ends_with_the_run(perdure: Perdure, tmp_path: Path) -> None:
    perdure("run", "-d", "gated.fabro").succeeded()
    with Terminal(tmp_path, "attach", "gated") as terminal:
        terminal.see("before")
        terminal.see("Go on?")
        terminal.see("> ")
        terminal.type("perhaps\n")
        terminal.see("is no choice")
        terminal.type("Y\n")
        terminal.see("SUCCEEDED")
        assert terminal.ended() == 0
    assert count(tmp_path) == ["before", "after"]


def test_an_attached_prompt_goes_away_when_somebody_else_answers(perdure: Perdure, tmp_path: Path) -> None:
    perdure("run", "-d", "gated.fabro").succeeded()
    with Terminal(tmp_path, "attach", "gated") as terminal:
        terminal.see("> ")
        perdure("answer", "gated", "N").succeeded()
        terminal.see("answered elsewhere")
        assert terminal.ended() == 0


def test_of_two_that_attach_one_asks(perdure: Perdure, tmp_path: Path) -> None:
    perdure("run", "-d", "gated.fabro").succeeded()
    with Terminal(tmp_path, "attach", "gated") as first:
        first.see("> ")
        with Terminal(tmp_path, "attach", "gated") as second:
            second.see("before")
            first.type("Y\n")
            assert first.ended() == 0
            assert second.ended() == 0
            assert "> " not in second.text


def test_ctrl_c_on_attach_only_detaches(perdure: Perdure, tmp_path: Path) -> None:
    perdure("run", "-d", "gated.fabro").succeeded()
    with Terminal(tmp_path, "attach", "gated") as terminal:
        terminal.see("> ")
        terminal.type("\x03")
        terminal.see("Detached")
        assert terminal.ended() == 130
    assert only_run(perdure)["status"] == "waiting"
    perdure("answer", "gated", "Y").succeeded()
    perdure("wait", "gated", "--timeout", "20").succeeded()


def test_a_detached_run_outlives_its_terminal(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "hello.fabro").write_text(HELLO % json.dumps("touch gate; while [ ! -f go ]; do sleep 0.02; done"))
    with Terminal(tmp_path, "run", "-d", "hello.fabro") as terminal:
        assert terminal.ended() == 0
    until((tmp_path / "gate").exists)
    (tmp_path / "go").touch()

    perdure("wait", "hello", "--timeout", "20").succeeded()


def test_what_a_step_prints_into_a_question_cannot_move_the_cursor(tmp_path: Path) -> None:
    text = GATED.replace("Go on?", "Go\x1b[2J on?").replace("[Y] Yes", "[Y] Y\u202ees")
    (tmp_path / "gated.fabro").write_text(text)
    with Terminal(tmp_path, "run", "gated.fabro") as terminal:
        terminal.see("Go\\x1b[2J on?")
        terminal.see("Y\\u202ees")


def test_progress_is_a_line_a_step_where_no_terminal_is(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "hello.fabro").write_text(HELLO % '"true"')
    ran = perdure("run", "hello.fabro").succeeded()

    assert "\r" not in ran.err
    assert "\x1b" not in ran.err
    assert "✓ hi" in ran.err


def test_signs_that_an_output_cannot_show_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "hello.fabro").write_text(HELLO % '"true"')
    done = subprocess.run(
        [sys.executable, "-m", "perdure.cli.entry", "run", "hello.fabro", "--goal", "größer"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )

    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
