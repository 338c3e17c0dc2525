"""The table of exit codes: every way that things end has its own, the same for all commands."""

import json
import signal
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED, HELLO, only_run, started, until

PLAIN = [
    (["run", "ok.fabro"], 0),
    (["run", "fails.fabro"], 1),
    (["run", "bad.fabro"], 2),
    (["run"], 2),
    (["run", "ok.fabro", "--backend", "nobody"], 2),
    (["validate", "ok.fabro"], 0),
    (["validate", "bad.fabro"], 2),
    (["parse", "bad.fabro"], 2),
    (["run", "gated.fabro"], 4),
    (["show", "nothing"], 4),
    (["run", "nothing.fabro"], 4),
    (["ps"], 0),
    (["--version"], 0),
]


@pytest.fixture(autouse=True)
def workflows(tmp_path: Path) -> None:
    """Workflows that end in all ways."""
    for name, script in (("ok", "true"), ("fails", "exit 3"), ("long", "touch gate; sleep 60")):
        (tmp_path / f"{name}.fabro").write_text(HELLO.replace("hello", name, 1) % json.dumps(script))
    (tmp_path / "gated.fabro").write_text(GATED)
    (tmp_path / "bad.fabro").write_text("digraph bad { start [shape=Mdiamond] start -> }")


@pytest.mark.parametrize(
    ("arguments", "code"), PLAIN, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_command_ends_with_the_code_of_what_it_came_to(perdure: Perdure, arguments: list[str], code: int) -> None:
    assert perdure(*arguments).code == code


@pytest.mark.crash
def test_a_run_that_another_process_owns_is_five_and_names_the_owner(perdure: Perdure, tmp_path: Path) -> None:
    process = started(perdure, tmp_path / "long.fabro")
    until((tmp_path / "gate").exists)
    try:
        for flags in ([], ["-d"]):
            ran = perdure("resume", "long", *flags)
            assert ran.code == 5
            assert f"pid {process.pid} on host" in ran.err
        assert perdure("rebuild", "long").code == 5
        assert perdure("wait", "long", "--timeout", "0.1").code == 3
        assert perdure("watch", "long", "--timeout", "0.1").code == 3
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert perdure("wait", "long", "--timeout", "0.1").code == 3


@pytest.mark.crash
def test_following_ends_with_the_code_of_the_run(perdure: Perdure, tmp_path: Path) -> None:
    perdure("run", "ok.fabro").succeeded()
    perdure("run", "fails.fabro")
    assert [perdure(verb, "ok").code for verb in ("wait", "watch", "attach", "resume")] == [0, 0, 0, 0]
    assert [perdure(verb, "fails").code for verb in ("wait", "watch", "attach", "resume")] == [1, 1, 1, 1]

    process = started(perdure, tmp_path / "long.fabro")
    until((tmp_path / "gate").exists)
    perdure("cancel", "long").succeeded()
    assert process.wait(20) == 2
    assert [perdure(verb, "long").code for verb in ("wait", "watch", "attach", "resume")] == [2, 2, 2, 2]


@pytest.mark.crash
def test_an_interrupted_run_is_four_for_who_looks(perdure: Perdure, tmp_path: Path) -> None:
    process = started(perdure, tmp_path / "long.fabro")
    until((tmp_path / "gate").exists)
    process.kill()
    process.wait()

    assert only_run(perdure)["status"] == "interrupted"
    assert [perdure(verb, "long").code for verb in ("wait", "watch", "attach")] == [4, 4, 4]
    perdure("cancel", "long").succeeded()


def test_a_reader_that_closes_early_ends_the_command_quietly(perdure: Perdure, tmp_path: Path) -> None:
    perdure("run", "ok.fabro").succeeded()
    import os
    import subprocess
    import sys

    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "perdure.cli.entry", "logs", "ok"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_stream_does_no_harm(perdure: Perdure, tmp_path: Path, state_home: Path, closed: int) -> None:
    """A number that is free would be given to the next file that is opened, and what is printed would go into that."""
    import subprocess
    import sys

    command = f'exec "{sys.executable}" -m perdure.cli.entry run gated.fabro {closed}{"<" if closed == 0 else ">"}&-'
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=False).returncode == 4

    perdure("answer", "gated", "Y").succeeded()
    perdure("resume", "gated").succeeded()
    assert (state_home / "state.sqlite").read_bytes().startswith(b"SQLite format 3\0")
