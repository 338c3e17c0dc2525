"""Streams of events, however they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.llm import sse
from perdure.llm.schemas import is_strict
from perdure.llm.sse import Decoder, EventTooLarge, ServerEvent
from perdure.llm.text import NotWhole, arguments_object, clean, parse

STREAM = ": ping\n\nevent: a\ndata: grüß 😀\n\r\ndata: one\r\ndata: two\r\n\r\ndata:{}\nid: 7\n\nevent: lost\n\ndata: end".encode()
EVENTS = [ServerEvent("a", "grüß 😀"), ServerEvent("", "one\ntwo"), ServerEvent("", "{}"), ServerEvent("", "end")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_pieces_may_end_anywhere(places: list[int]) -> None:
    decoder = Decoder()
    ends = [0, *sorted(places), len(STREAM)]
    found = [event for start, end in pairwise(ends) for event in decoder.feed(STREAM[start:end])]

    assert [*found, *decoder.finish()] == EVENTS


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert Decoder().feed(b"data: a\xffb\n\n") == [ServerEvent("", "a\ufffdb")]


def test_a_stream_that_never_ends_its_event_does_not_take_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    decoder = Decoder()

    with pytest.raises(EventTooLarge):
        decoder.feed((b"data: " + b"a" * 100 + b"\n") * 20)


@given(
    st.recursive(
        st.text(st.characters()), lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner)
    )
)
def test_clean_values_can_be_encoded(value: object) -> None:
    import json

    json.dumps(clean(value), ensure_ascii=False).encode()


def test_a_whole_pair_of_surrogates_stays_what_it_is() -> None:
    assert parse('"\\ud83d\\ude00 \\ud83d"') == "😀 \ufffd"


@pytest.mark.parametrize("text", ['{"a": ', "", "nul", "[" * 100_000])
def test_a_cut_text_is_not_whole(text: str) -> None:
    with pytest.raises(NotWhole):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expected"), [('{"a": 1}', {"a": 1}), ("", {}), ("[1]", {"arguments": "[1]"}), ("{", {"arguments": "{"})]
)
def test_arguments_become_an_object_and_lose_nothing(text: str, expected: object) -> None:
    assert arguments_object(text) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            True,
        ),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
        ({"anyOf": [{"type": "string"}, True]}, False),
        ({"type": "string"}, True),
    ],
)
def test_a_schema_is_strict_only_when_nothing_is_left_open(schema: object, expected: bool) -> None:
    assert is_strict(schema) is expected
