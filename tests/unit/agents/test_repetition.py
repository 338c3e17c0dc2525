"""An agent that goes round in circles is told, then stopped; one that works is left alone."""

import pytest

from perdure.agents.repetition import find_repetition, turn_digest
from perdure.llm.protocol import ToolCall


@pytest.mark.parametrize(
    ("turns", "action", "period"),
    [
        ("aaa", "warn", 1),
        ("aaaaaa", "stop", 1),
        ("xxyababab", "warn", 2),
        ("ababababab", "stop", 2),
        ("abcabcabc", "warn", 3),
        ("abcabcabca", "stop", 3),
    ],
)  # fmt: skip
def test_a_round_that_repeats_is_told_and_then_stopped(turns: str, action: str, period: int) -> None:
    found = find_repetition(list(turns))
    assert found is not None
    assert (found.action, found.period) == (action, period)


@pytest.mark.parametrize("turns", ["", "a", "aa", "abcdefghij", "abab", "aaab", "aabbaabb", "abcdabcdabcd"])
def test_work_that_moves_on_is_left_alone(turns: str) -> None:
    assert find_repetition(list(turns)) is None


def test_only_the_last_ten_turns_count() -> None:
    assert find_repetition([*"aaaaaa", *"bcdefghijk"]) is None


def test_turns_without_calls_are_no_round() -> None:
    assert turn_digest([]) == ""
    assert find_repetition([""] * 8) is None


def test_the_spelling_of_arguments_does_not_count() -> None:
    one, two = ToolCall("1", "read", '{"a": 1, "b": 2}'), ToolCall("2", "read", '{"b":2,"a":1}')
    assert turn_digest([one]) == turn_digest([two])
    assert turn_digest([one]) != turn_digest([one, two])
    assert turn_digest([ToolCall("1", "read", "{")]) != turn_digest([ToolCall("1", "read", "\ud83d")])
