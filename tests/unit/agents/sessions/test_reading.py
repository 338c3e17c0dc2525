"""A conversation comes back as it was, whatever a kill left at its end, and damage is told, never guessed over."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agents.sessions import events
from perdure.agents.sessions.events import Attempt, Delivery, End, Event, Send, Usage, message_event, message_of
from perdure.agents.sessions.files import UnreadableSession
from perdure.agents.sessions.following import Following
from perdure.agents.sessions.reader import NO_RESULT, Entry, Problem, messages_for_replay, read_events, summary
from perdure.agents.sessions.writer import SessionWriter
from perdure.disk.home import StateHome
from perdure.llm.protocol import Message, ModelError, ToolCall, ToolResult
from perdure.llm.protocol import Usage as Reported

from .files import header, lines, write

ASKED = Message("assistant", "Let me look.", tool_calls=(ToolCall("a", "read"), ToolCall("b", "read")))
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
calls = st.lists(st.builds(ToolCall, text, text, text), max_size=3).map(tuple)
results = st.lists(st.builds(ToolResult, text, text, st.booleans()), max_size=3).map(tuple)
items = st.lists(st.dictionaries(text, st.none() | st.integers(-(2**53), 2**53) | text | st.lists(text)), max_size=2)
messages = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user"]), text),
    st.builds(Message, st.just("tool"), text, tool_results=results),
    st.builds(
        Message, st.just("assistant"), text, tool_calls=calls, summary=text, wire_format=text, wire=items.map(tuple)
    ),
)


def saved(*found: Message) -> list[Event]:
    return [header(), *(message_event(number, each) for number, each in enumerate(found, 1))]


@given(messages)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    line = events.encode_event(message_event(1, message))
    event = events.decode_event(line)
    assert isinstance(event, events.Message)
    assert message_of(event) == message


def test_a_conversation_is_replayed_unchanged_with_the_providers_own_items(home: StateHome) -> None:
    wire: tuple[dict[str, Any], ...] = ({"type": "reasoning", "encrypted_content": "gAAAA", "z": 1, "a": [None]},)
    said = (
        Message("system", "You work."),
        Message("user", "Go\u2028on\x85 and\x0bon"),
        Message("assistant", "Done", summary="Thought", wire_format="openai.responses", wire=wire),
    )
    path = write(home, [*saved(*said), Delivery(turn=2, attempt=1, block=0, content_kind="text", text="Do")])
    assert messages_for_replay(str(path)) == list(said)


@pytest.mark.parametrize("answered", [(), ("a",), ("b",)])
def test_every_tool_call_without_a_result_is_replayed_with_an_error(home: StateHome, answered: tuple[str, ...]) -> None:
    found = [ASKED]
    if answered:
        found.append(Message("tool", tool_results=tuple(ToolResult(each, "ok") for each in answered)))
    path = write(home, saved(*found, Message("user", "Go on")))
    [asked, tools, user] = messages_for_replay(str(path))
    assert asked == ASKED
    assert user == Message("user", "Go on")
    assert {each.call_id: (each.text, each.is_error) for each in tools.tool_results} == {
        each: ("ok", False) if each in answered else (NO_RESULT, True) for each in "ab"
    }


def test_the_last_tool_calls_are_answered_too(home: StateHome) -> None:
    path = write(home, saved(ASKED))
    assert [each.role for each in messages_for_replay(str(path))] == ["assistant", "tool"]


def test_a_summary_counts_what_was_reported_and_calls_without_a_result_as_failed(home: StateHome) -> None:
    path = write(
        home,
        [
            header(backend="openai", model="m", reasoning="high"),
            message_event(1, Message("user", "Go")),
            message_event(1, ASKED),
            Attempt(turn=1, attempt=1, error="slow down", error_code="RATE_LIMIT"),
            Attempt(turn=1, attempt=2, usage=Usage(input_tokens=10, output_tokens=2)),
            message_event(1, Message("tool", tool_results=(ToolResult("a", "no", is_error=True),))),
            message_event(2, ASKED),
            message_event(2, Message("tool", tool_results=(ToolResult("a", "ok"), ToolResult("b", "ok")))),
            Attempt(turn=2, attempt=1, usage=Usage(input_tokens=20, cache_read_tokens=5)),
            Delivery(turn=2, attempt=1, block=0, content_kind="text", text="x"),
            End(at="2026-03-07T09:30:01.500Z"),
            Send(send=1, text="Why?", at="2026-03-08T09:30:00.000Z"),
            events.Answer(send=1, at="2026-03-08T09:30:01.000Z"),
        ],
    )
    found = summary(str(path))
    assert (found.backend, found.model, found.reasoning) == ("openai", "m", "high")
    assert (found.started_at, found.ended_at) == ("2026-03-07T09:30:00.000Z", "2026-03-07T09:30:01.500Z")
    assert (found.duration_ms, found.follow_ups, found.turns) == (1500, 1, 2)
    assert found.tokens == Usage(input_tokens=30, output_tokens=2, cache_read_tokens=5)
    assert (found.tool_calls.calls, found.tool_calls.failed) == (4, 2)


def test_an_attempt_keeps_what_a_failed_call_used(home: StateHome) -> None:
    error = ModelError("QUOTA", "all used up", usage=Reported(input_tokens=3))
    assert events.attempt_event(1, 2, None, error) == Attempt(
        turn=1, attempt=2, usage=Usage(input_tokens=3), error="all used up", error_code="QUOTA"
    )


_SAID = Message("user", 'héllo "🎉" \\ end')
_WHOLE = lines(*saved(_SAID, _SAID))


@given(st.integers(0, len(_WHOLE)))
def test_a_file_cut_at_any_byte_keeps_every_whole_event_and_takes_new_ones(tmp_path_factory: Any, cut: int) -> None:
    home = StateHome(str(tmp_path_factory.mktemp("cut")))
    path = write(home, _WHOLE[:cut])
    whole = _WHOLE[:cut].count(b"\n") + (cut > 0 and _WHOLE[cut : cut + 1] == b"\n")
    found = list(read_events(str(path)))
    assert sum(isinstance(each, Entry) for each in found) == whole
    assert all(each.is_torn and each.is_open for each in found if isinstance(each, Problem))
    if whole:
        assert len(messages_for_replay(str(path))) == whole - 1
    writer = SessionWriter.open(home, header())
    for number in (1, 2):
        writer.append(message_event(number, _SAID))
    writer.append(End())
    writer.close()
    assert messages_for_replay(str(path)) == [_SAID, _SAID]
    assert path.read_bytes().startswith(_WHOLE[:cut])
    assert isinstance(list(read_events(str(path)))[-1], Entry)


def test_a_torn_line_is_named_with_its_place_and_stays(home: StateHome) -> None:
    path = write(home, lines(header()) + b'{"kind":"mess')
    [_header, torn] = read_events(str(path))
    assert isinstance(torn, Problem)
    offset = len(lines(header()))
    assert torn.describe(str(path)) == f"{path}: line 2 (byte {offset}) was cut off and is ignored"
    assert path.read_bytes().endswith(b'{"kind":"mess')


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"riddle"}',
        b'{"at":"now"}',
        b'{"kind":"message","turn":1}',
        b'{"kind":"end","result":1,"errorCode":"QUOTA","error":"none left"}',
        b'{"kind":"end","error":"none left"}',
        b'{"kind":"answer","text":"so","errorCode":"QUOTA","error":"none left"}',
        b'{"kind":"end","kind":"end"}',
        b'{"kind":"send","text":"\xff"}',
        b'{"kind":"send","text":' + b"[" * 100_000 + b"}",
    ],
    ids=range(9),
)
def test_a_whole_line_that_is_no_event_is_told_and_nothing_goes_on_after_it(home: StateHome, line: bytes) -> None:
    path = write(home, lines(header()) + line + b"\n" + lines(End()))
    found = list(read_events(str(path)))
    assert [isinstance(each, Entry) for each in found] == [True, False, True]
    assert isinstance(found[1], Problem)
    assert not found[1].is_torn
    for read in (summary, messages_for_replay):
        with pytest.raises(UnreadableSession, match="line 2"):
            read(str(path))


def test_fields_of_a_newer_program_are_kept_and_in_nobodys_way(home: StateHome) -> None:
    line = b'{"kind":"review","version":1,"sessionId":"s","mood":{"good":true}}'
    path = write(home, line + b"\n" + b'{"kind":"end","mood":1}\n')
    found = [each for each in read_events(str(path)) if isinstance(each, Entry)]
    assert [each.raw for each in found] == [line, b'{"kind":"end","mood":1}']


def test_looking_changes_nothing(home: StateHome) -> None:
    path = write(home, _WHOLE[:-5])
    path.chmod(0o400)
    before = (path.read_bytes(), path.stat().st_mtime_ns, os.listdir(home.agent_sessions))
    summary(str(path))
    messages_for_replay(str(path))
    assert (path.read_bytes(), path.stat().st_mtime_ns, os.listdir(home.agent_sessions)) == before


def told(following: Following) -> list[str]:
    return [
        each if isinstance(each, str) else str(each.event.__struct_config__.tag) if isinstance(each, Entry) else "bad"
        for each in following.poll()
    ]


def test_a_follower_waits_for_the_end_of_a_line_and_of_a_sign(home: StateHome) -> None:
    content = lines(header()) + lines(message_event(1, Message("user", "é")))
    path = write(home, b"")
    following = Following(str(path))
    seen = []
    for end in range(len(content) + 1):
        path.write_bytes(content[:end])
        seen += told(following)
    assert seen == ["review", "message"]


@pytest.mark.parametrize("how", ["cut", "replaced", "rewritten"])
def test_a_follower_begins_anew_when_the_file_is_another(home: StateHome, tmp_path: Path, how: str) -> None:
    path = write(home, [header(), End()])
    following = Following(str(path))
    assert told(following) == ["review", "end"]
    if how == "replaced":
        other = tmp_path / "other"
        other.write_bytes(lines(header(), message_event(1, Message("user", "x" * 500))))
        other.replace(path)
        assert told(following) == ["replaced", "review", "message"]
    elif how == "rewritten":
        path.write_bytes(lines(header(title="y" * 500), End()))
        assert told(following) == ["replaced", "review", "end"]
    else:
        path.write_bytes(lines(header()))
        assert told(following) == ["replaced", "review"]


def test_a_follower_tells_that_the_file_is_gone_and_reads_one_that_comes_after(home: StateHome) -> None:
    path = write(home, [header(), End()])
    following = Following(str(path))
    told(following)
    path.unlink()
    assert told(following) == ["removed"]
    assert told(following) == []
    write(home, [header()])
    assert told(following) == ["review"]
