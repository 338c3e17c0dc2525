"""The console entry: what people and programs see when something goes wrong."""

import json
from pathlib import Path

import click
import pytest

from perdure.base.errors import PerdureError
from perdure.cli import main

BROKEN = "perdure.cli.broken:command"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command with a defect."""

    @click.command()
    def command() -> None:
        raise ZeroDivisionError("hush-hush-0123456789 \x1b[2J")

    monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_given: command)
    monkeypatch.setenv("MY_SECRET", "hush-hush-0123456789")


@pytest.mark.usefixtures("broken")
def test_a_defect_is_one_line_and_its_traceback_a_file_without_secrets(
    state_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state_home.mkdir()
    assert main.run(["anything"]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
    assert f"{state_home}/cli.log" in told.err
    assert "\x1b" not in told.err
    kept = (state_home / "cli.log").read_text()
    assert "Traceback" in kept
    assert "ZeroDivisionError" in kept
    assert "hush-hush-0123456789" not in kept
    assert (state_home / "cli.log").stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("broken")
def test_a_defect_makes_no_state(state_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["anything"]) == 2

    assert "--debug" in capsys.readouterr().err
    assert not state_home.exists()


@pytest.mark.usefixtures("broken", "state_home")
def test_a_defect_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--json", "anything"]) == 2

    assert json.loads(capsys.readouterr().err)["error"]["code"] == "unexpected"


@pytest.mark.usefixtures("broken", "state_home")
def test_with_debug_a_defect_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        main.run(["--debug", "anything"])


@pytest.mark.usefixtures("state_home")
@pytest.mark.parametrize("number", range(6))
def test_an_error_that_can_be_explained_ends_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    class Explained(PerdureError):
        code = "explained"
        exit_code = number

    @click.command()
    def command() -> None:
        raise Explained("The thing is so.", hint="Go there.")

    monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_given: command)

    assert main.run(["anything"]) == number
    assert capsys.readouterr().err == "error: The thing is so. Go there.\n"
    assert main.run(["--json", "anything"]) == number
    assert json.loads(capsys.readouterr().err) == {
        "error": {"code": "explained", "message": "The thing is so.", "hint": "Go there."}
    }


def test_every_command_of_the_table_is_there() -> None:
    context = click.Context(main.cli)
    for name, (where, about) in main.COMMANDS.items():
        command = main.cli.get_command(context, name)
        assert isinstance(command, click.Command), where
        assert bool(about) != (name in main.HIDDEN)
