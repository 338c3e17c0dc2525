"""Commands of an agent: quoted by nobody, ended with all that they started, and nothing they print is lost."""

import shutil
from pathlib import Path

import pytest

from perdure.agents.tools.settings import ToolSettings
from perdure.disk import process
from perdure.sandbox.bwrap import SandboxMissing

from .conftest import Desk


def test_outputs_come_in_the_order_of_their_printing(desk: Desk) -> None:
    assert desk.ok("shell", command="echo a; echo b >&2; echo c") == "a\nb\nc\n"


def test_a_failure_is_an_error_with_its_code(desk: Desk) -> None:
    assert desk.fault("shell", command="echo no; exit 3") == "no\n\n[exit code 3]"
    assert "signal 9" in desk.fault("shell", command="kill -9 $$")
    assert desk.ok("shell", command="true") == "[no output]"


def test_a_command_reaches_bash_as_it_is(desk: Desk) -> None:
    command = """printf '%s|' '$(touch x)' "a'b" "`echo q`" $'t\\tn'; cat <<'E'\n"$HOME"\nE"""
    assert desk.ok("shell", command=command) == """$(touch x)|a'b|q|t\tn|"$HOME"\n"""
    assert list(desk.root.iterdir()) == []


def test_a_command_gets_no_input_and_does_not_hang(desk: Desk) -> None:
    assert desk.ok("shell", command="read x; echo got:$x") == "got:\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo $$ > pid; sleep 300 & echo $! >> pid; wait",
        "echo $$ > pid; setsid sh -c 'echo $$ >> pid; sleep 300' & wait; sleep 300",
    ],
)
def test_no_grandchild_outlives_a_timeout(desk: Desk, command: str) -> None:
    assert "ended after 1 s" in desk.fault("shell", command=command, timeout_s=1)
    assert all(process.started_at(int(pid)) is None for pid in (desk.root / "pid").read_text().split())


def test_a_timeout_has_a_limit(desk: Desk) -> None:
    assert "timeout_s" in desk.fault("shell", command="true", timeout_s=601)


def test_the_group_is_told_before_the_command_does_anything(desk: Desk) -> None:
    desk.ok("shell", command="true")
    assert len(desk.groups) == 1


def test_a_long_output_shows_both_ends_and_keeps_all(desk: Desk) -> None:
    outcome = desk.call("shell", command="seq 1 2000000")
    assert len(outcome.text) < 31_000
    assert outcome.text.startswith("1\n2\n")
    assert outcome.text.endswith("2000000\n")
    assert str(desk.context.kept["call-1"]).count("\\n") == 2_000_000
    assert "bytes left out" in outcome.text
    assert list(desk.scratch.iterdir()) == []


def test_bytes_of_every_kind_come_out_as_text(desk: Desk) -> None:
    text = desk.ok("shell", command="printf '\\377\\000\\303\\251'; printf 'x\\r\\n'")
    assert text == "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}éx\r\n"


def test_a_working_folder_that_is_gone_is_an_error_for_the_model(desk: Desk, tmp_path: Path) -> None:
    desk.context.cwd = str(tmp_path / "gone")
    assert "not there" in desk.fault("shell", command="true")


def test_without_the_confinement_nothing_runs_and_a_person_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.sandbox.bwrap.find_program", lambda _name, _path: None)
    desk.context.sandbox = "bwrap"
    with pytest.raises(SandboxMissing, match="package bubblewrap"):
        desk.call("shell", command="touch made")
    with pytest.raises(SandboxMissing, match="package bubblewrap"):
        ToolSettings(sandbox="bwrap").context(str(desk.root), str(desk.root), {}, str(desk.scratch))
    assert list(desk.root.iterdir()) == []


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no program bwrap (package bubblewrap)")
def test_a_confined_command_works_in_its_folder_and_its_errors_are_seen(desk: Desk) -> None:
    desk.context.sandbox = "bwrap"
    assert desk.ok("shell", command="echo x > made; cat made; echo e >&2") == "x\ne\n"
    assert (desk.root / "made").exists()
    desk.context.cwd = str(desk.root / "inner")
    (desk.root / "inner").mkdir(mode=0o755)
    assert "Read-only" in desk.fault("shell", command="echo x > /usr/x")
