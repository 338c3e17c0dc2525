"""What a program printed is a text, or an object around one; what is half understood never counts as a success."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agents.answer import parse_answer
from perdure.agents.backend import BackendError


@pytest.mark.parametrize(
    "printed",
    [
        "plain words",
        "",
        '{"no": "text in it"}',
        '{"text": 5}',
        "{not json}",
        '["text"]',
        '{"text": "cut',
        '{"text": "a"} and more',
    ],
)
def test_all_that_is_no_object_around_a_text_is_the_text(printed: str) -> None:
    answer = parse_answer(f"\n {printed} \n")

    assert (answer.text, answer.directive, answer.usage) == (printed, None, None)


@pytest.mark.parametrize("key", ["text", "response", "result"])
def test_the_text_stands_under_one_of_three_keys(key: str) -> None:
    assert parse_answer(json.dumps({key: "said"})).text == "said"


def test_an_object_is_taken_apart() -> None:
    printed = {
        "text": "Mended.",
        "directive": {"outcome": "failed"},
        "files_touched": ["a.py", 5],
        "usage": {"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 7, "speed": "fast"},
        "total_cost_usd": 0.25,
        "model": "m-2",
    }
    answer = parse_answer(json.dumps(printed))

    assert answer.text == "Mended."
    assert answer.directive == {"outcome": "failed"}
    assert answer.files_touched == ["a.py"]
    assert answer.usage == {"input_tokens": 12, "output_tokens": 3, "cache_read_tokens": 7, "cost": 0.25}
    assert answer.model == "m-2"


def test_routing_words_may_stand_beside_the_text() -> None:
    directive = parse_answer('{"text": "No.", "outcome": "failed", "failure_reason": "it rains"}').directive

    assert directive is not None
    assert (directive["outcome"], directive["failure_reason"]) == ("failed", "it rains")


def test_an_object_that_says_it_is_an_error_is_a_failure() -> None:
    with pytest.raises(BackendError, match="Credit balance is too low") as raised:
        parse_answer('{"type": "result", "is_error": true, "result": "Credit balance is too low"}')

    assert raised.value.partial == "Credit balance is too low"


@pytest.mark.parametrize("directive", ['"succeeded"', "[]", "true", "7"])
def test_an_unclear_directive_is_a_failure(directive: str) -> None:
    with pytest.raises(BackendError, match="unclear"):
        parse_answer(f'{{"text": "fine", "directive": {directive}}}')


@pytest.mark.parametrize("usage", [{"input_tokens": "many"}, {"input_tokens": True}, {"cost": -1}, "none", None])
def test_figures_that_are_no_numbers_are_left_out(usage: Any) -> None:
    assert parse_answer(json.dumps({"text": "x", "usage": usage})).usage is None


@pytest.mark.parametrize(
    "printed", ['{"text": "x", "a": ' + "[" * 50_000 + "}", '{"text": "\\ud800"}', '{"text": "x", "a": NaN}']
)
def test_json_that_no_reader_takes_is_a_text(printed: str) -> None:
    assert parse_answer(printed).text == printed


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda each: st.dictionaries(
            st.sampled_from(["text", "result", "directive", "usage", "is_error", "model", "files_touched", "x"]), each
        ),
    )
)
def test_no_output_breaks_the_reader(value: Any) -> None:
    with suppress(BackendError):
        parse_answer(json.dumps(value))
