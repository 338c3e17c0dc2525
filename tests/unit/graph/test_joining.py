"""How many branches are enough, and what they come to together."""

import pytest

from perdure.graph.dialect import ATTRACTOR, FABRO
from perdure.graph.joining import Join, join_for
from perdure.graph.model import Node


def node(**attrs: object) -> Node:
    return Node(id="p", attrs=attrs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attrs", "needed"),
    [
        ({}, None),
        ({"join_policy": "first_success"}, 1),
        ({"join_policy": "k_of_n", "join_k": 2}, 2),
        ({"join_policy": "k_of_n", "k": 3}, 3),
        ({"join_policy": "k_of_n"}, 5),
        ({"join_policy": "quorum"}, 3),
        ({"join_policy": "quorum", "quorum_fraction": 0.2}, 1),
        ({"join_policy": "quorum", "join_quorum": "0.75"}, 4),
        ({"join_policy": "most"}, None),
    ],
)
def test_a_policy_says_how_many_of_five_must_succeed(attrs: dict[str, object], needed: int | None) -> None:
    assert join_for(node(**attrs), 5, ATTRACTOR).needed == needed


@pytest.mark.parametrize("policy", ["k_of_n", "quorum"])
def test_older_words_count_as_the_defaults_in_the_newer_dialect(policy: str) -> None:
    assert join_for(node(join_policy=policy, join_k=1, error_policy="ignore"), 3, FABRO) == Join()


@pytest.mark.parametrize(
    ("join", "good", "bad", "enough", "verdict"),
    [
        (Join(), 3, 0, False, "succeeded"),
        (Join(), 2, 1, False, "partially_succeeded"),
        (Join(), 0, 3, False, "failed"),
        (Join("first_success", needed=1), 1, 1, True, "succeeded"),
        (Join("k_of_n", needed=2), 1, 1, False, "failed"),
        (Join("k_of_n", needed=2), 2, 1, True, "succeeded"),
        (Join("wait_all", "fail_fast"), 1, 1, True, "failed"),
        (Join("k_of_n", "fail_fast", 2), 2, 0, True, "succeeded"),
        (Join("k_of_n", "fail_fast", 2), 1, 1, True, "failed"),
        (Join("wait_all", "ignore"), 1, 2, False, "succeeded"),
        (Join("wait_all", "ignore"), 0, 3, False, "failed"),
    ],
)
def test_branches_come_to(join: Join, good: int, bad: int, enough: bool, verdict: str) -> None:
    assert (join.is_enough(good, bad), join.verdict(good, bad)) == (enough, verdict)
