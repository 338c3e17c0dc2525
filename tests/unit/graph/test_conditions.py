"""Conditions: what holds, and what cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.base.jsonvalue import JSON
from perdure.graph.conditions import BadCondition, evaluate, parse

CONTEXT: dict[str, JSON] = {
    "outcome": "succeeded", "preferred_label": "Fix (now)", "n": 3, "x": 3.5, "word": "it's", "tags": ["red", "blue"],
    "yes": True, "no": False, "zero": "0", "empty": "", "tests.passed": "12", "text": "line one\nFAILED two",
}  # fmt: skip


def holds(text: str) -> bool:
    return evaluate(parse(text), CONTEXT.get)


@pytest.mark.parametrize(
    "text",
    [
        "outcome=success", "outcome = succeeded", "outcome!=fail", "outcome==SUCCESS", "preferred_label=Fix (now)",
        "n>2 && n<4", "n>=3", "n<=3", "x>3", "tests.passed > 9", "word=it's && word=it's", 'word="it\'s"', "tags contains red",
        "text contains FAILED", "text matches ^line", "text matches (FAILED|ERROR)", "yes", "!no", "!zero", "!empty", "!missing",
        "!!yes", "missing=", "no || yes", "no && no || yes", "yes || no && no", "outcome='success'",
    ],
)  # fmt: skip
def test_it_holds(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "outcome=fail", "outcome!=success", "n>x", "word>1", "missing>0", "tags contains re", "no", "zero", "empty", "missing",
        "yes && no", "no && yes || no", "text matches ^FAILED", "word=its",
    ],
)  # fmt: skip
def test_it_does_not_hold(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"), ("outcome=success &&", "without a side"), ("|| yes", "without a side"), ("(yes)", "parentheses"),
        ("=x", "key"), ("a b", "operator"), ("a matches [", "pattern"), ('a="b', "without an end"), ('a="b" c', "left over"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_reason(text: str, complaint: str) -> None:
    with pytest.raises(BadCondition, match=complaint):
        parse(text)


@given(st.text(alphabet="ab=!<>&|()'\" .1", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else is raised, and what was read can be evaluated."""
    try:
        condition = parse(text)
    except BadCondition:
        return
    evaluate(condition, CONTEXT.get)
