"""Lists are quick whatever the files hold, and only sessions that nobody needs are collected, the oldest first."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.agents.sessions.collection import collect
from perdure.agents.sessions.events import Attempt, Delivery, End, message_event
from perdure.agents.sessions.listing import list_sessions
from perdure.agents.sessions.reference import Reference, parse_reference
from perdure.disk.atomic import UnsafePath
from perdure.disk.home import StateHome
from perdure.disk.lock import PidLock
from perdure.kernel.capacity.limits import AgentSessions
from perdure.llm.protocol import Message, Tool

from .files import header, lines, write

LIMITS = AgentSessions(max_bytes=1000, target_bytes=500)


def test_a_list_shows_when_something_was_last_said_not_when_the_file_was_touched(home: StateHome) -> None:
    for number, name in enumerate(["a", "b", "c"]):
        write(home, [header(name), Attempt(turn=1, attempt=1, at=f"2026-03-07T10:0{number}:00.000Z")], name)
    os.utime(Path(home.agent_sessions) / "a.jsonl")
    assert [each.session_id for each in list_sessions(home)] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ([header(title="Fix  the\nbug"), message_event(1, Message("user", "Do"))], "Fix the bug"),
        ([header(), message_event(1, Message("system", "s" * 50_000)), message_event(1, Message("user", "Do"))], "Do"),
        ([header(eval_id="node")], "node"),
        ([header(tools=(Tool("t", "d" * 400_000, {}),), title="Large")], "Large"),
    ],
    ids=["header", "first question", "node", "large header"],
)
def test_a_session_is_called_by_its_header_or_its_first_question_or_its_node(
    home: StateHome, given: list[object], title: str
) -> None:
    write(home, given)  # type: ignore[arg-type]
    assert [each.title for each in list_sessions(home)] == [title]


def test_a_session_has_ended_when_its_last_event_but_what_is_shown_is_an_end(home: StateHome) -> None:
    shown = Delivery(turn=1, attempt=1, block=0, content_kind="text", text="x" * 40_000)
    write(home, [header("a"), End(), shown], "a")
    write(home, [header("b"), Attempt(turn=1, attempt=1)], "b")
    assert {each.session_id: each.is_ended for each in list_sessions(home)} == {"a": True, "b": False}


def test_a_file_that_is_no_session_costs_itself_only(home: StateHome) -> None:
    write(home, b"nothing\n}\n", "bad")
    write(home, [header("other")], "wrong")
    write(home, b"", "empty")
    write(home, lines(header("deep")) + b"[" * 100_000 + b"\n", "deep")
    write(home, [header("good")], "good")
    found = {each.session_id: each.problem for each in list_sessions(home)}
    assert (found.pop("good"), found.pop("deep")) == (None, None)
    assert found["wrong"] == "it holds session other"
    assert found["empty"] == "it holds no event"
    assert found["bad"]


def test_without_a_folder_there_are_no_sessions_and_none_is_made(home: StateHome) -> None:
    assert list_sessions(home) == []
    assert not os.path.exists(home.root)


def test_a_folder_that_others_can_look_into_is_not_read(home: StateHome) -> None:
    write(home, [header()])
    os.chmod(home.agent_sessions, 0o755)
    with pytest.raises(UnsafePath, match="0755"):
        list_sessions(home)


_LIST = """
import sys, time
from perdure.agents.sessions.listing import list_sessions
from perdure.disk.home import StateHome
before = time.perf_counter()
found = list_sessions(StateHome(sys.argv[1]))
took = time.perf_counter() - before
assert len(found) == 500 and all(each.title and not each.problem for each in found), found[:3]
print(took, int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024)
"""


@pytest.mark.timing
def test_five_hundred_sessions_one_of_300_mb_are_listed_in_two_seconds_and_100_mb(home: StateHome) -> None:
    body = lines(*(message_event(turn, Message("user", "x" * 2000)) for turn in range(10)))
    for number in range(499):
        write(home, lines(header(f"s{number}")) + body, f"s{number}")
    path = write(home, lines(header("large")), "large")
    piece = body * 50
    with path.open("ab") as file:
        for _ in range(300_000_000 // len(piece) + 1):
            file.write(piece)
    assert path.stat().st_size > 300_000_000
    ran = subprocess.run([sys.executable, "-c", _LIST, home.root], capture_output=True, text=True, check=True)
    path.unlink()
    took_s, memory_mb = map(float, ran.stdout.split())
    assert took_s < 2
    assert memory_mb < 100


def put(home: StateHome, name: str, size: int, age_s: int) -> Path:
    path = write(home, lines(header(name, title="")).ljust(size - 1) + b"\n", name)
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def names(home: StateHome) -> list[str]:
    return sorted(each.name for each in Path(home.agent_sessions).iterdir())


def test_within_its_bound_nothing_is_collected(home: StateHome) -> None:
    for number, name in enumerate("abcd"):
        put(home, name, 250, number)
    assert collect(home, LIMITS, set()).removed == ()


def test_above_its_bound_what_was_written_longest_ago_goes_until_the_target_holds(home: StateHome) -> None:
    for number, name in enumerate("abcde"):
        put(home, name, 250, number)
    found = collect(home, LIMITS, set())
    assert [each.session_id for each in found.removed] == ["e", "d", "c"]
    assert (found.bytes_before, found.bytes_after) == (1250, 500)
    assert names(home) == ["a.jsonl", "b.jsonl"]


def test_a_session_in_use_or_locked_stays_though_the_bound_is_passed(home: StateHome) -> None:
    for number, name in enumerate("abc"):
        put(home, name, 600, number)
    with PidLock(f"{home.agent_sessions}/b.lock"):
        found = collect(home, LIMITS, {"c"})
    assert [each.session_id for each in found.removed] == ["a"]
    assert names(home) == ["b.jsonl", "c.jsonl"]
    assert "b is kept: it is locked by pid" in found.kept[0]


def test_a_dry_run_removes_nothing(home: StateHome) -> None:
    for number, name in enumerate("abcde"):
        put(home, name, 250, number)
    found = collect(home, LIMITS, set(), dry_run=True)
    assert [each.session_id for each in found.removed] == ["e", "d", "c"]
    assert len(names(home)) == 5


def test_a_reference_reads_back_though_its_step_has_slashes() -> None:
    reference = Reference("me@host", "01a22f69-0000-7000-8000-000000000000", "R", "fork/lint@2", "s")
    assert parse_reference(reference.text()) == reference


@pytest.mark.parametrize("text", ["s", "R/step", "a/b/c/d/e", "me@host/no-uuid/R/step/s"])
def test_another_text_is_no_reference(text: str) -> None:
    assert parse_reference(text) is None
