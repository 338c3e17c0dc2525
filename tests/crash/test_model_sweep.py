"""Killed after any durable write, an agent of a model goes on inside its conversation, and nothing is paid for twice."""

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.tools.operation import INTERRUPTED
from perdure.testing.providers import Call, FakeProvider, Reply
from perdure.testing.providers.script import Asked

SWEEPING = Path(__file__).parent / "model_sweeping.py"
PLAN = [
    Call("read", {"path": "notes.txt"}),
    Call("write", {"path": "made.txt", "content": "made\n"}),
    Call("edit", {"path": "notes.txt", "old_string": "old", "new_string": "new"}),
    Call("shell", {"command": "echo once > shell.txt"}),
]


def _next(asked: Asked) -> Reply:
    """The next call of the plan. One that was interrupted is made again, as a model would."""
    results = [each["content"] for each in asked.body["messages"] if each["role"] == "tool"]
    done = [each for each in results if INTERRUPTED not in each]
    if len(done) == len(PLAN):
        return Reply(text="All is done.")
    return Reply(text=f"Step {len(done) + 1}.", tool_calls=[PLAN[len(done)]])


def _swept(folder: Path, first: int, step: int) -> tuple[list[dict[str, Any]], dict[int, Counter[str]]]:
    """What became of each kill, and how often each prompt was answered after it."""
    folder.mkdir()
    with FakeProvider(_next) as provider:
        command = [sys.executable, str(SWEEPING), str(folder), str(first), str(step)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **provider.environ}
        )
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
        answered: dict[int, Counter[str]] = defaultdict(Counter)
        for request in provider.requests:
            place = re.search(rf"{re.escape(str(folder))}/(\d+)/", json.dumps(request.body))
            assert place is not None
            if request.outcome == "answered":
                answered[int(place[1])][request.prompt] += 1
    return [json.loads(line) for line in done.stdout.splitlines()], answered


def _check(results: list[dict[str, Any]], answered: dict[int, Counter[str]]) -> None:
    whole, *killed = results
    assert whole["code"] == 0
    assert whole["seen"]["files"]["shell.txt"] == "once\n"
    assert sum(result["died"] for result in killed) > 0.8 * len(killed)
    for result in killed:
        where = f"killed after write {result['k']} ({result['label']})"
        assert result["code"] == 0, where
        assert result["seen"] == whole["seen"], where
        # Only the turn that was under way is asked again: its answer may have come, and was not recorded.
        again = [count for count in answered[result["k"]].values() if count > 1]
        assert again in ([], [2]), where


@pytest.mark.crash
@pytest.mark.timeout(400)
def test_an_agent_that_is_killed_after_a_durable_write_goes_on_in_its_conversation(tmp_path: Path) -> None:
    _check(*_swept(tmp_path / "sweep", 2, 5))


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_agent_that_is_killed_after_any_durable_write_goes_on_in_its_conversation(tmp_path: Path) -> None:
    _check(*_swept(tmp_path / "sweep", 1, 1))
