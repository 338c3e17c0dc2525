"""The retrospective's figures, and what they show."""

import msgspec
import pytest

from perdure.graph.context import StageRecord
from perdure.graph.retro import retrospective
from perdure.kernel.outcome import Failure, Outcome

GOOD = Outcome("succeeded", "completed")
BAD = Outcome("failed", "workflow_error", Failure("Node b failed."))


def stage(node_id: str, status: str = "succeeded", **more: object) -> StageRecord:
    plain = StageRecord(
        step=node_id,
        node_id=node_id,
        label=node_id.upper(),
        handler="command",
        status=status,
        notes=None,
        failure="it rains" if status == "failed" else None,
        retries=0,
        duration_ms=100,
        files_touched=[],
        detail="",
    )
    return msgspec.structs.replace(plain, **more)


def test_the_figures_are_of_all_visits_but_the_start_and_the_exit() -> None:
    stages = [
        stage("start", handler="start", duration_ms=7),
        stage("a", files_touched=["y.py", "x.py"], retries=2, cost=0.25),
        stage("b", "failed", files_touched=["x.py"], cost=0.5),
        stage("exit", handler="exit"),
    ]

    assert retrospective(stages, "the goal", GOOD)["stats"] == {
        "total_duration_ms": 200,
        "total_retries": 2,
        "files_touched": ["x.py", "y.py"],
        "stages_completed": 1,
        "stages_failed": 1,
        "total_cost": 0.75,
    }


def test_a_cost_that_nobody_reported_is_not_told_as_zero() -> None:
    assert "total_cost" not in retrospective([stage("a")], "", GOOD)["stats"]


def test_the_time_of_branches_is_not_counted_twice() -> None:
    retro = retrospective([stage("p"), stage("x", handler="branch"), stage("y", handler="branch")], "", GOOD)

    assert retro["stats"]["total_duration_ms"] == 100
    assert retro["stats"]["stages_completed"] == 3


@pytest.mark.parametrize(
    ("stages", "rating"),
    [
        ([], "effortless"),
        ([stage("a"), stage("b")], "effortless"),
        ([stage("a", retries=1), *(stage(f"n{n}") for n in range(4))], "smooth"),
        ([stage("a", "failed"), stage("b"), stage("c")], "bumpy"),
        ([stage("a", "failed"), stage("b"), stage("a", "failed"), stage("a")], "struggled"),
    ],
)
def test_a_word_says_how_smooth_it_was(stages: list[StageRecord], rating: str) -> None:
    assert retrospective(stages, "", GOOD)["smoothness_rating"] == rating


def test_a_failed_run_was_not_smooth_however_short_it_was() -> None:
    retro = retrospective([stage("a")], "", BAD)

    assert retro["smoothness_rating"] == "failed"
    assert retro["open_items"] == [{"kind": "failure", "description": "Node b failed."}]


def test_failures_retries_and_loops_are_friction() -> None:
    stages = [stage("a", "failed"), stage("b", retries=1), stage("a"), stage("c")]

    assert retrospective(stages, "", GOOD)["friction_points"] == [
        {"kind": "failure", "description": "it rains", "stage_id": "a"},
        {"kind": "retry", "description": "1 retry", "stage_id": "b"},
        {"kind": "loop", "description": "visited 2 times", "stage_id": "a"},
    ]


def test_what_mended_itself_is_learned() -> None:
    stages = [stage("a", "failed"), stage("b", retries=2), stage("a"), stage("c", "failed")]

    assert retrospective(stages, "", GOOD)["learnings"] == [
        {"category": "recovery", "text": "a failed 1 time before it succeeded."},
        {"category": "transient", "text": "b succeeded after 2 retries: its trouble passes."},
    ]


def test_what_only_a_model_could_tell_is_null() -> None:
    retro = retrospective([stage("a")], "", GOOD)

    assert (retro["narrative"], retro["intent"]) == (None, None)
