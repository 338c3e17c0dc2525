"""Branches of a parallel node that are joined before all have ended, or in spite of failures."""

import pytest

from .conftest import Graphs

SLOW = "sleep 30"


def body(join: str, *scripts: str) -> str:
    names = "abcd"[: len(scripts)]
    nodes = " ".join(
        f'{name} [shape=parallelogram, script="{script}"]' for name, script in zip(names, scripts, strict=True)
    )
    edges = "; ".join(f"p -> {name} -> j" for name in names)
    return f"p [shape=component, {join}] j [shape=tripleoctagon] {nodes} start -> p; {edges}; j -> exit"


def ended(graphs: Graphs) -> list[str]:
    return [each["id"] for each in graphs.context()["parallel.results"]]


@pytest.mark.parametrize("join", ["join_policy=k_of_n, join_k=2", "join_policy=quorum, quorum_fraction=0.5"])
def test_enough_successes_end_the_other_branches(graphs: Graphs, join: str) -> None:
    assert graphs.run(body(join, "true", "true", SLOW), ending="dot").status == "succeeded"
    assert ended(graphs) == ["a", "b"]
    [started] = graphs.events("parallel.started")
    assert started.properties["join_policy"] == join.split(",", maxsplit=1)[0].split("=")[1]


def test_too_few_successes_are_a_failure_that_says_how_many(graphs: Graphs) -> None:
    result = graphs.run(body("join_policy=k_of_n, join_k=2", "true", "exit 1", "exit 1"), ending="dot")

    assert result.status == "failed"
    assert "1 branches of p succeeded, and k_of_n needs 2" in graphs.failure(result)


def test_the_first_failure_ends_the_other_branches_when_that_is_the_policy(graphs: Graphs) -> None:
    result = graphs.run(body("error_policy=fail_fast", "exit 1", SLOW), ending="dot")

    assert result.status == "failed"
    assert "fail_fast" in graphs.failure(result)


def test_failures_that_are_ignored_leave_no_trace_in_the_results(graphs: Graphs) -> None:
    assert graphs.run(body("error_policy=ignore", "true", "exit 1"), ending="dot").status == "succeeded"
    assert ended(graphs) == ["a"]
    [completed] = graphs.events("parallel.completed")
    assert completed.properties["failure_count"] == 1


def test_the_newer_dialect_waits_for_all_branches(graphs: Graphs) -> None:
    assert graphs.run(body("join_policy=k_of_n, join_k=1", "true", "true")).status == "succeeded"
    assert ended(graphs) == ["a", "b"]
