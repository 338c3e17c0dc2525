"""A session holds every event once: after a kill, beside another process, and whatever else stands there."""

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.agents.sessions import events
from perdure.agents.sessions.events import Attempt, End, Event, Review, Send
from perdure.agents.sessions.files import UnreadableSession
from perdure.agents.sessions.reader import Entry, Problem, messages_for_replay, read_events
from perdure.agents.sessions.writer import SessionWriter
from perdure.base import failpoint
from perdure.base.errors import NotFound
from perdure.base.masking import Masker
from perdure.base.names import BadName
from perdure.disk.atomic import UnsafePath
from perdure.disk.home import StateHome
from perdure.disk.lock import Locked, PidLock
from perdure.llm import protocol

HEADER = Review(session_id="s", run_id="R", request_id="work@1", eval_id="work", backend="openai", model="m")


def said(number: int, text: str = "") -> events.Message:
    return events.message_event(number, protocol.Message("user", text=text or f"message {number}"))


def work(count: int) -> list[Event]:
    """The same events each time, as work that begins again tells them."""
    found: list[Event] = []
    for number in range(1, count + 1):
        found += [said(number), Attempt(turn=number, attempt=1)]
    return [*found, End(result="done")]


def path_of(home: StateHome, session_id: str = "s") -> Path:
    return Path(home.agent_sessions) / f"{session_id}.jsonl"


def held(home: StateHome) -> list[str]:
    """What the file holds, in short."""
    found = []
    for each in read_events(str(path_of(home))):
        assert isinstance(each, (Entry, Problem))
        if isinstance(each, Problem):
            found.append("torn" if each.is_torn else "damage")
        elif isinstance(each.event, events.Message):
            found.append(each.event.message.text)
        else:
            found.append(str(each.event.__struct_config__.tag))
    return found


def test_the_folder_and_the_files_are_for_their_owner_only(home: StateHome) -> None:
    before = os.umask(0)
    try:
        SessionWriter.open(home, HEADER).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(home.agent_sessions).st_mode) == 0o700
    assert stat.S_IMODE(path_of(home).stat().st_mode) == 0o600


def test_a_folder_that_others_can_look_into_is_refused(home: StateHome) -> None:
    os.makedirs(home.agent_sessions, 0o755)
    os.chmod(home.agent_sessions, 0o750)
    with pytest.raises(UnsafePath, match="0750"):
        SessionWriter.open(home, HEADER)
    assert os.listdir(home.agent_sessions) == []


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_link_in_the_place_of_the_folder_or_a_file_is_not_followed(
    home: StateHome, tmp_path: Path, what: str
) -> None:
    target = tmp_path / "elsewhere"
    if what == "folder":
        target.mkdir(mode=0o700)
        os.makedirs(home.root)
        os.symlink(target, home.agent_sessions)
    else:
        target.write_bytes(b"precious")
        os.makedirs(home.agent_sessions, 0o700)
        path_of(home).symlink_to(target)
    with pytest.raises(UnsafePath):
        SessionWriter.open(home, HEADER)
    assert target.is_dir() or target.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".", "a.b", "x" * 300, "CON", "a\0", "a\n", "-a"])
def test_an_id_that_can_be_no_file_name_is_refused(home: StateHome, name: str) -> None:
    with pytest.raises(BadName):
        SessionWriter.open(home, Review(session_id=name))


def test_opening_a_session_that_is_there_gives_it_back_with_its_history(home: StateHome) -> None:
    first = SessionWriter.open(home, HEADER)
    first.append(said(1))
    first.close()
    before = path_of(home).read_bytes()
    again = SessionWriter.open(home, Review(session_id="s", model="another"))
    again.close()
    assert again.header is not None
    assert again.header.model == "m"
    assert path_of(home).read_bytes() == before


@pytest.mark.parametrize("kept", range(8))
def test_work_that_begins_again_neither_loses_nor_doubles_an_event(home: StateHome, kept: int) -> None:
    first = SessionWriter.open(home, HEADER)
    for event in work(3)[:kept]:
        first.append(event)
    second = SessionWriter.open(home, HEADER)
    added = [second.append(event) for event in work(3)]
    second.close()
    first.close()
    assert added == [False] * kept + [True] * (7 - kept)
    assert held(home) == ["review", "message 1", "attempt", "message 2", "attempt", "message 3", "attempt", "end"]


def test_what_is_only_shown_is_not_counted_when_work_begins_again(home: StateHome) -> None:
    first = SessionWriter.open(home, HEADER)
    first.append(said(1))
    first.deliver(1, 1, 0, "text", "Hello", state="complete")
    first.close()
    second = SessionWriter.open(home, HEADER)
    for event in work(1):
        second.append(event)
    second.close()
    assert held(home) == ["review", "message 1", "delivery", "delivery", "attempt", "end"]


def test_what_was_shown_of_an_answer_that_a_kill_cut_off_is_marked_when_the_work_goes_on(home: StateHome) -> None:
    killed = SessionWriter.open(home, HEADER)
    killed.deliver(1, 1, 0, "summary", "Think", state="complete")
    killed.deliver(1, 1, 1, "text", "Hel", state="delta")
    killed.append(said(1))
    killed.deliver(2, 1, 1, "text", "whole", state="complete")
    again = SessionWriter.open(home, HEADER)
    again.close()
    killed.close()
    found = [each.event for each in read_events(str(path_of(home))) if isinstance(each, Entry)]
    marked = [each for each in found if isinstance(each, events.Delivery) and each.state == "interrupted"]
    assert [(each.turn, each.block, each.text) for each in marked] == [(2, 1, "")]
    before = path_of(home).read_bytes()
    SessionWriter.open(home, HEADER).close()
    assert path_of(home).read_bytes() == before


def test_a_follow_up_is_not_counted_when_work_begins_again(home: StateHome) -> None:
    SessionWriter.open(home, HEADER).close()
    for number in (1, 2):
        follow_up = SessionWriter.follow_up(home, "s")
        assert follow_up.send == number
        follow_up.append(Send(text="Why?"))
        follow_up.append(said(1, f"why {number}"))
        follow_up.close()
    again = SessionWriter.open(home, HEADER)
    assert again.append(said(1))
    again.close()
    assert held(home) == ["review", "send", "why 1", "send", "why 2", "message 1"]


def test_a_follow_up_of_a_session_that_is_not_there_is_not_made(home: StateHome) -> None:
    with pytest.raises(NotFound):
        SessionWriter.follow_up(home, "s")
    assert not path_of(home).exists()


def test_a_run_that_tells_other_events_than_the_file_holds_does_not_go_on_in_it(home: StateHome) -> None:
    first = SessionWriter.open(home, HEADER)
    first.append(said(1))
    first.close()
    second = SessionWriter.open(home, HEADER)
    with pytest.raises(UnreadableSession, match="another than the run recorded"):
        second.append(End())
    second.close()
    assert held(home) == ["review", "message 1"]


def test_the_first_trouble_is_told_once_and_the_work_goes_on(home: StateHome, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    writer = SessionWriter.open(home, HEADER, warn=warnings.append)
    monkeypatch.setattr(failpoint, "armed", True)
    monkeypatch.setattr(failpoint, "_fail_from", "1")
    monkeypatch.setattr(failpoint, "_fail_name", errno.errorcode[errno.ENOSPC])
    assert [writer.append(event) for event in work(2)] == [False] * 5
    writer.deliver(1, 1, 0, "text", "Hello", state="complete")
    writer.close()
    [warning] = warnings
    assert warning.startswith("Cannot save agent session s: ")
    assert warning.endswith("; the work goes on without saving it.")


def test_work_goes_on_where_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    writer = SessionWriter.open(StateHome(str(tmp_path / "file")), HEADER, warn=warnings.append)
    assert [writer.append(event) for event in work(1)] == [False] * 3
    writer.close()
    assert len(warnings) == 1


def test_a_session_that_was_removed_under_its_writer_is_told_and_not_made_again(home: StateHome) -> None:
    warnings: list[str] = []
    writer = SessionWriter.open(home, HEADER, warn=warnings.append)
    path_of(home).unlink()
    assert not writer.append(said(1))
    writer.close()
    assert "was removed" in warnings[0]
    assert os.listdir(home.agent_sessions) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not a session\n}\n", "no readable session"),
        (b'{"kind":"end"}\n', "does not begin with a review"),
        (b'{"kind":"review","version":1,"sessionId":"t"}\n', "holds session t"),
        (b'{"kind":"review","version":2,"sessionId":"s"}\n', "version 2"),
        (b'{"kind":"review","version":1,"sessionId":"s"}\n{"kind":"riddle"}\n', "riddle"),
        (b'{"kind":"review","version":1,"sessionId":"s"}\n' + b"[" * 100_000 + b"}\n", "nested too deeply"),
        (b'{"kind":"review","version":1,"sessionId":"s"}\n{"kind":"attempt","turn":"x","at":1 }\n', "Expected"),
    ],
)
def test_an_unreadable_file_is_never_written(home: StateHome, content: bytes, reason: str) -> None:
    os.makedirs(home.agent_sessions, 0o700)
    path_of(home).write_bytes(content)
    with pytest.raises(UnreadableSession, match=reason):
        SessionWriter.open(home, HEADER)
    with pytest.raises(UnreadableSession, match=reason):
        SessionWriter.follow_up(home, "s")
    assert path_of(home).read_bytes() == content
    assert [each.name for each in Path(home.agent_sessions).iterdir()] == ["s.jsonl"]


def test_secrets_are_masked_in_events_and_across_pieces_of_what_is_shown(home: StateHome) -> None:
    writer = SessionWriter.open(home, HEADER, mask=Masker(["hunter2-hunter2"]))
    writer.append(said(1, "the password is hunter2-hunter2."))
    for piece in ("it is hunt", "er2-hun", "ter2 é", " then"):
        writer.deliver(1, 1, 0, "text", piece)
    writer.deliver(1, 1, 0, "text", ".", state="interrupted")
    writer.close()
    found = [each.event for each in read_events(str(path_of(home))) if isinstance(each, Entry)]
    shown = "".join(each.text for each in found if isinstance(each, events.Delivery))
    assert shown == "it is [masked] é then."
    assert b"hunter2" not in path_of(home).read_bytes()


def test_what_is_shown_is_written_in_few_pieces_and_soon_after_it_stops(home: StateHome) -> None:
    async def stream() -> bytes:
        writer = SessionWriter.open(home, HEADER)
        for _ in range(1000):
            writer.deliver(1, 1, 0, "text", "word ")
        async with asyncio.timeout(10):
            while path_of(home).read_bytes().count(b"word") < 1000:
                await asyncio.sleep(0.01)
        content = path_of(home).read_bytes()
        writer.close()
        return content

    assert asyncio.run(stream()).count(b'"delivery"') < 20


def test_showing_never_waits_for_the_lock_and_loses_nothing_then(home: StateHome) -> None:
    writer = SessionWriter.open(home, HEADER)
    with PidLock(f"{home.agent_sessions}/s.lock"):
        writer.deliver(1, 1, 0, "text", "one ", state="delta")
        writer.deliver(1, 1, 0, "text", "two", state="complete")
        assert held(home) == ["review"]
    writer.append(said(1))
    writer.close()
    assert held(home) == ["review", "delivery", "message 1"]


def test_a_lone_half_of_a_surrogate_pair_becomes_valid_text(home: StateHome) -> None:
    writer = SessionWriter.open(home, HEADER)
    writer.append(said(1, "a\ud83db \U0001f600"))
    writer.close()
    assert held(home) == ["review", "a\ufffdb \U0001f600"]


def test_a_lock_that_stays_is_named_with_its_holder_and_the_way_out(home: StateHome) -> None:
    writer = SessionWriter.open(home, HEADER, lock_wait_s=0.05)
    lock = f"{home.agent_sessions}/s.lock"
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        Path(lock).write_text(str(holder.pid))
        with pytest.raises(Locked) as caught:
            writer.append(said(1))
        assert str(caught.value) == (
            f"Session s is locked by pid {holder.pid}. If no Perdure process is using it, remove {lock} "
            f"(and {lock}.break, if present) and retry."
        )
    finally:
        holder.kill()
        holder.communicate()
    writer.close()
    again = SessionWriter.open(home, HEADER)
    assert again.append(said(1))
    again.close()
    assert held(home) == ["review", "message 1"]


_PREFIX = """
import os, signal, sys
from perdure.agents.sessions import events
from perdure.agents.sessions.events import Attempt, End, Review
from perdure.agents.sessions.writer import SessionWriter
from perdure.disk.home import StateHome
from perdure.llm import protocol
home, name = StateHome(sys.argv[1]), sys.argv[2]
def said(number):
    return events.message_event(number, protocol.Message("user", text=f"message {number}"))
"""
_LOOP = """
writer = SessionWriter.open(home, Review(session_id="s"))
for number in (1, 2, 3):
    writer.append(said(number))
    writer.append(Attempt(turn=number, attempt=1))
writer.append(End(result="done"))
writer.close()
"""
_BESIDE = """
writer = SessionWriter.open(home, Review(session_id="s"))
print("ready", flush=True)
sys.stdin.readline()
writer._held.clear()
for number in range(200):
    writer.append(events.message_event(number, protocol.Message("user", text=f"{name} {number}")))
writer.close()
"""
_HALF = """
writer = SessionWriter.open(home, Review(session_id="s"))
writer.append(said(1))
write = os.write
def half(handle, content):
    if b"message 2" in bytes(content):
        write(handle, bytes(content[: len(content) // 2]))
        os.kill(os.getpid(), signal.SIGKILL)
    return write(handle, content)
os.write = half
writer.append(said(2))
"""


def program(home: StateHome, code: str, name: str = "") -> list[str]:
    return [sys.executable, "-c", _PREFIX + code, home.root, name]


def test_two_processes_that_append_both_keep_their_messages(home: StateHome) -> None:
    SessionWriter.open(home, HEADER).close()
    writers = [
        subprocess.Popen(program(home, _BESIDE, name), stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in "ab"
    ]
    for each in writers:
        assert each.stdout is not None
        assert each.stdout.readline() == b"ready\n"
    for each in writers:
        assert each.stdin is not None
        each.stdin.write(b"\n")
        each.stdin.flush()
    for each in writers:
        each.communicate()
        assert each.returncode == 0
    found = held(home)[1:]
    for name in "ab":
        assert [each for each in found if each.startswith(name)] == [f"{name} {number}" for number in range(200)]


@pytest.mark.crash
def test_a_kill_in_the_middle_of_an_append_costs_nothing_when_the_work_goes_on(home: StateHome) -> None:
    killed = subprocess.run(program(home, _HALF), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert held(home) == ["review", "message 1", "torn"]
    assert [each.text for each in messages_for_replay(str(path_of(home)))] == ["message 1"]
    subprocess.run(program(home, _LOOP), check=True)
    assert held(home) == [
        "review",
        "message 1",
        "torn",
        "attempt",
        "message 2",
        "attempt",
        "message 3",
        "attempt",
        "end",
    ]


# The lock of opening, the file, its header, for each of seven events the lock and the event, and the disk's word.
_WRITES = 3 + 7 * 2 + 1


@pytest.mark.crash
@pytest.mark.parametrize("write", range(1, _WRITES + 1))
def test_after_a_kill_at_any_write_the_work_goes_on_with_every_event_once(home: StateHome, write: int) -> None:
    killed = subprocess.run(program(home, _LOOP), env={**os.environ, "PERDURE_CRASH_AFTER": str(write)}, check=False)
    assert killed.returncode == -signal.SIGKILL
    subprocess.run(program(home, _LOOP), check=True)
    assert held(home) == ["review", "message 1", "attempt", "message 2", "attempt", "message 3", "attempt", "end"]
    assert [each.name for each in Path(home.agent_sessions).iterdir()] == ["s.jsonl"]
