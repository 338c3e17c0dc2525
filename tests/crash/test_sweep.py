"""Killed after any durable write, a run goes on to the same end as one that was never killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SWEEPING = Path(__file__).parent / "sweeping.py"


def _swept(folder: Path, first: int, step: int, *flags: str) -> list[dict[str, Any]]:
    command = [sys.executable, str(SWEEPING), str(folder / "sweep"), str(first), str(step), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _check(results: list[dict[str, Any]]) -> None:
    whole, *killed = results
    assert whole["code"] == 0
    # How many writes a run makes varies a little with timing, so the last few numbers may not be reached.
    assert sum(result["died"] for result in killed) > 0.8 * len(killed)
    for result in killed:
        where = f"killed after write {result['k']} ({result['label']})"
        assert result["code"] == 0, where
        assert result["seen"] == whole["seen"], where
        for node, count in whole["effects"].items():
            # A step that was killed before its end was recorded runs again: once more at most, and only that one.
            assert count <= result["effects"].get(node, 0) <= count + 1, where
        assert sum(result["effects"].values()) <= sum(whole["effects"].values()) + 2, where


@pytest.mark.crash
@pytest.mark.timeout(400)
@pytest.mark.parametrize("part", [1, 2])
def test_a_run_that_is_killed_after_any_durable_write_ends_as_if_it_never_was(tmp_path: Path, part: int) -> None:
    _check(_swept(tmp_path, part, 2))


@pytest.mark.crash
@pytest.mark.timeout(400)
@pytest.mark.parametrize("flags", [(), ("--git",)])
def test_a_run_that_is_killed_after_its_gate_ends_as_if_it_never_was(tmp_path: Path, flags: tuple[str, ...]) -> None:
    _check(_swept(tmp_path, 1, 1, "--late", *flags))


@pytest.mark.crash
@pytest.mark.timeout(400)
def test_a_run_with_checkpoints_in_git_has_the_same_history_after_a_kill(tmp_path: Path) -> None:
    _check(_swept(tmp_path, 2, 9, "--git"))


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_run_with_checkpoints_in_git_survives_a_kill_after_every_write(tmp_path: Path) -> None:
    _check(_swept(tmp_path, 1, 1, "--git"))
