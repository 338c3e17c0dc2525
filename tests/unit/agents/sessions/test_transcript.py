"""A transcript shows what was said and what tools did, and none of what is private."""

from perdure.agents.sessions import events
from perdure.agents.sessions.events import Attempt, Delivery, DeliveryState, End, Event, Send, message_event
from perdure.agents.sessions.transcript import Block, Transcript, label_of, text_of
from perdure.llm.protocol import DeltaKind, Message, ToolCall, ToolResult

from .files import header


def shown(*found: Event, is_over: bool = True) -> list[tuple[str, str]]:
    """What stands there at the end: label or kind, and text."""
    transcript = Transcript()
    blocks: dict[int, Block] = {}
    for event in found:
        blocks |= {each.number: each for each in transcript.feed(event)}
    if is_over:
        blocks |= {each.number: each for each in transcript.rest()}
    return [
        (label_of(each) or each.kind, text_of(each)) for _, each in sorted(blocks.items()) if each.kind != "removed"
    ]


def piece(
    text: str,
    *,
    turn: int = 1,
    attempt: int = 1,
    block: int = 0,
    kind: DeltaKind = "text",
    state: DeliveryState = "delta",
) -> Delivery:
    return Delivery(turn=turn, attempt=attempt, block=block, content_kind=kind, text=text, state=state)


def test_it_shows_texts_and_summaries_and_says_only_how_long_a_system_prompt_is() -> None:
    found = shown(
        header(model="m"),
        message_event(1, Message("system", "secret rules")),
        message_event(1, Message("user", "Do it")),
        message_event(1, Message("assistant", "Done", summary="I thought", wire=({"encrypted_content": "gAAAA"},))),
        End(),
    )
    assert found == [
        ("session", "Session s  m  2026-03-07T09:30:00.000Z"),
        ("system", "System prompt, 12 characters"),
        ("User", "Do it"),
        ("Reasoning, in short", "I thought"),
        ("Agent", "Done"),
        ("end", "The work ended."),
    ]


def test_tools_are_a_group_with_names_targets_states_and_errors_only() -> None:
    calls = (
        ToolCall("a", "read", '{"path":"src/a.py","limit":5}'),
        ToolCall("b", "shell", '{"command":"rm -rf /private"}'),
        ToolCall("c", "fetch", '{"url":"https://host/page?token=1"}'),
        ToolCall("d", "edit", "no JSON"),
    )
    results = (ToolResult("a", "private content"), ToolResult("b", "not\nallowed", is_error=True), ToolResult("c", ""))
    found = shown(
        message_event(1, Message("assistant", tool_calls=calls)),
        message_event(1, Message("tool", tool_results=results)),
    )
    assert found == [
        (
            "Tools, 4 calls",
            "read src/a.py [done]\nshell rm [failed] not allowed\nfetch https://host/page [done]\nedit [no result]",
        )
    ]


def test_tools_run_until_their_results_come() -> None:
    asked = message_event(1, Message("assistant", tool_calls=(ToolCall("a", "list"),)))
    assert shown(asked, is_over=False) == [("Tools, 1 call", "list [running]")]


def test_text_that_came_bit_by_bit_gives_way_to_the_whole_message() -> None:
    found = shown(
        piece("Thin", kind="summary"),
        piece("Hel", block=1),
        piece("lo", block=1, state="complete"),
        piece("more", block=2),
        message_event(1, Message("assistant", "Hello, more", summary="Thinking")),
    )
    assert found == [("Reasoning, in short", "Thinking"), ("Agent", "Hello, more")]


def test_pieces_that_come_after_their_message_are_not_shown_again() -> None:
    assert shown(message_event(1, Message("assistant", "Hello")), piece("Hel")) == [("Agent", "Hello")]


def test_a_summary_that_only_the_stream_had_stays() -> None:
    found = shown(piece("Thinking", kind="summary"), message_event(1, Message("assistant", "Hello")))
    assert found == [("Reasoning, in short", "Thinking"), ("Agent", "Hello")]


def test_a_part_that_was_interrupted_is_labelled_and_kept() -> None:
    found = shown(
        piece("Hel"),
        piece("p", state="interrupted"),
        Attempt(turn=1, attempt=1, error="cut", error_code="TRANSIENT"),
        piece("Hello", attempt=2),
        message_event(1, Message("assistant", "Hello!")),
    )
    assert found == [
        ("Agent (interrupted)", "Help"),
        ("failure", "Attempt 1 failed, TRANSIENT: cut"),
        ("Agent", "Hello!"),
    ]


def test_a_part_whose_attempt_just_stopped_is_labelled_when_another_begins_or_the_file_ends() -> None:
    assert shown(piece("one"), piece("two", attempt=2)) == [
        ("Agent (interrupted)", "one"),
        ("Agent (interrupted)", "two"),
    ]


def test_a_follow_up_shows_the_question_without_its_frame_once() -> None:
    found = shown(
        Send(send=1, text="Why?", framing="This is a follow-up.", files_changed=True),
        events.Message(
            send=1, turn=1, message=events.SavedMessage("user", "This is a follow-up. Why?"), question="Why?"
        ),
        events.Message(send=1, turn=1, message=events.SavedMessage("assistant", "Because.")),
        events.Answer(send=1, text="Because."),
    )
    assert found == [("follow_up", "Follow-up 1 (files have changed since): Why?"), ("Agent", "Because.")]


def test_work_that_ended_badly_says_how() -> None:
    assert shown(End(error="none left", error_code="QUOTA")) == [("failure", "Ended, QUOTA: none left")]


def test_what_may_still_change_is_all_that_is_kept() -> None:
    transcript = Transcript()
    for turn in range(1, 200):
        transcript.feed(piece("x" * 100, turn=turn))
        transcript.feed(message_event(turn, Message("assistant", "x" * 100)))
    assert transcript.rest() == []
