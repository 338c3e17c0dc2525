"""The way on from a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.graph.edges import choose_edge, normalised
from perdure.graph.model import Edge


def edge(target: str, **attrs: str | int) -> Edge:
    return Edge(source="a", target=target, attrs=dict(attrs))


def succeeded(key: str) -> str | None:
    return {"outcome": "succeeded"}.get(key)


def test_a_condition_that_holds_beats_label_suggestion_and_weight() -> None:
    edges = [edge("b", weight=9), edge("c", label="Go"), edge("d", condition="outcome=success")]

    choice = choose_edge(edges, succeeded, preferred_label="Go", suggested=["b"])

    assert choice is not None
    assert (choice.target, choice.reason) == ("d", "condition")


def test_a_preferred_label_beats_a_suggestion() -> None:
    choice = choose_edge([edge("b"), edge("c", label="[G] Go")], succeeded, preferred_label=" go ", suggested=["b"])

    assert choice is not None
    assert (choice.target, choice.reason) == ("c", "preferred_label")


def test_suggestions_are_tried_in_their_order() -> None:
    choice = choose_edge([edge("b"), edge("c")], succeeded, suggested=["x", "c", "b"])

    assert choice is not None
    assert (choice.target, choice.reason) == ("c", "suggested_next")


@pytest.mark.parametrize(("weights", "target"), [((0, 5), "c"), ((5, 0), "b"), ((1, 1), "b")])
def test_the_heaviest_edge_is_taken_then_the_first_name(weights: tuple[int, int], target: str) -> None:
    choice = choose_edge([edge("c", weight=weights[1]), edge("b", weight=weights[0])], succeeded)

    assert choice is not None
    assert choice.target == target


def test_a_jump_beats_everything() -> None:
    choice = choose_edge([edge("b", condition="outcome=success")], succeeded, jump="z")

    assert choice is not None
    assert (choice.target, choice.reason, choice.edge) == ("z", "jump", None)


def test_a_failure_does_not_slip_through_a_plain_edge() -> None:
    assert choose_edge([edge("b", label="Go")], succeeded, preferred_label="Go", unconditional=False) is None


def test_a_condition_that_cannot_be_read_does_not_hold() -> None:
    assert choose_edge([edge("b", condition="(((")], succeeded) is None


@given(st.floats(0, 1, exclude_max=True), st.lists(st.integers(-2, 5), min_size=1, max_size=6))
def test_a_draw_takes_one_of_the_edges(share: float, weights: list[int]) -> None:
    edges = [edge(f"n{index}", weight=weight) for index, weight in enumerate(weights)]

    choice = choose_edge(edges, succeeded, share=share)

    assert choice is not None
    assert choice.edge in edges


@pytest.mark.parametrize("label", ["[Y] Yes", "Y) Yes", "Y - Yes", " yes "])
def test_the_key_of_a_label_is_no_part_of_it(label: str) -> None:
    assert normalised(label) == "yes"
