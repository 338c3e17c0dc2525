"""Which way a graph goes: conditions, labels, weights, failures, gates, limits, restarts."""

from typing import Any

import pytest

from .conftest import Graphs

A = "a [prompt=a] b [prompt=b] c [prompt=c]"


def say(**directive: Any) -> dict[str, Any]:
    return {"text": "said", "directive": directive}


def test_a_line_of_nodes_is_walked_to_its_end(graphs: Graphs) -> None:
    result = graphs.run(f"{A} start -> a -> b -> c -> exit")
    assert result.status == "succeeded"
    assert graphs.path() == ["start", "a", "b", "c"]


@pytest.mark.parametrize(("outcome", "target"), [("success", "b"), ("fail", "c"), ("succeeded", "b"), ("failed", "c")])
def test_words_of_all_eras_take_the_same_edges(graphs: Graphs, outcome: str, target: str) -> None:
    graphs.answers["a"] = say(outcome=outcome)
    graphs.run(
        f'{A} start -> a; a -> b [condition="outcome=success"]; a -> c [condition="outcome=failed"]; b -> exit; c -> exit'
    )
    assert graphs.path() == ["start", "a", target]


def test_among_conditions_that_hold_the_heaviest_wins_then_the_first_name(graphs: Graphs) -> None:
    edges = 'a -> c [condition="outcome=success"]; a -> b [condition="outcome=success"];'
    graphs.run(f"{A} start -> a; {edges} a -> exit; b -> exit; c -> exit")
    assert graphs.path() == ["start", "a", "b"]
    graphs.run(f"{A} start -> a; {edges.replace('c [', 'c [weight=5 ')} a -> exit; b -> exit; c -> exit")
    assert graphs.path() == ["start", "a", "c"]


def test_a_preferred_label_beats_a_suggestion_and_a_suggestion_beats_weight(graphs: Graphs) -> None:
    body = f'{A} start -> a; a -> b [label="[B] Go to b"]; a -> c [weight=9]; a -> exit; b -> exit; c -> exit'
    graphs.answers["a"] = say(preferred_next_label="go to B", suggested_next_ids=["exit"])
    graphs.run(body)
    assert graphs.path() == ["start", "a", "b"]
    graphs.answers["a"] = say(suggested_next_ids=["exit"])
    graphs.run(body)
    assert graphs.path() == ["start", "a"]
    graphs.answers["a"] = "nothing said"
    graphs.run(body)
    assert graphs.path() == ["start", "a", "c"]


def test_a_random_choice_is_recorded_and_stays_the_same(graphs: Graphs) -> None:
    graphs.run(f"{A} a [selection=random] start -> a; a -> b; a -> c; b -> exit; c -> exit")
    first = graphs.path()
    row = graphs.store.find_run(graphs.run_id)
    assert row is not None
    assert len(graphs.events("step.completed")) >= 4
    assert first[2] in ("b", "c")


def test_a_failure_never_slips_through_a_plain_edge(graphs: Graphs) -> None:
    graphs.answers["a"] = {"fail": "it broke"}
    result = graphs.run(f"{A} start -> a -> b -> exit")
    assert result.status == "failed"
    assert graphs.path() == ["start", "a"]
    assert "no outgoing fail edge" in graphs.failure(result)
    assert "it broke" in graphs.failure(result)


def test_a_graph_may_say_that_a_failure_goes_on(graphs: Graphs) -> None:
    graphs.answers["a"] = {"fail": "it broke"}
    assert graphs.run(f"{A} a [on_failure=succeed] start -> a -> b -> exit").status == "succeeded"
    assert graphs.path() == ["start", "a", "b"]
    assert (
        graphs.run(f'{A} on_failure=exit start -> a; a -> b [condition="outcome=fail"]; a -> exit; b -> exit').status
        == "failed"
    )
    assert graphs.path() == ["start", "a"]


@pytest.mark.parametrize(
    "where", ["a [retry_target=c]", "a [fallback_retry_target=c]", "retry_target=c", "fallback_retry_target=c"]
)
def test_a_failure_without_an_edge_goes_to_a_retry_target(graphs: Graphs, where: str) -> None:
    graphs.answers["a"] = {"fail": "it broke"}
    assert graphs.run(f"{A} {where} start -> a -> exit; c -> exit").status == "succeeded"
    assert graphs.path() == ["start", "a", "c"]


def test_a_failing_goal_gate_sends_the_run_back(graphs: Graphs) -> None:
    graphs.answers["a"] = [{"fail": "not yet"}, "now"]
    body = f'{A} a [goal_gate=true, retry_target=b] start -> a; a -> c [condition="outcome=fail"]; a -> c; b -> a; c -> exit'
    assert graphs.run(body).status == "succeeded"
    assert graphs.path() == ["start", "a", "c", "b", "a", "c"]


def test_a_goal_gate_without_a_way_to_mend_it_fails_the_run_by_name(graphs: Graphs) -> None:
    graphs.answers["a"] = {"fail": "never"}
    result = graphs.run(f'{A} a [goal_gate=true] start -> a; a -> c [condition="outcome=fail"]; a -> c; c -> exit')
    assert result.status == "failed"
    assert "Goal gate a" in graphs.failure(result)


def test_a_goal_gate_that_never_ran_is_not_met(graphs: Graphs) -> None:
    result = graphs.run(
        f'{A} b [goal_gate=true] start -> a; a -> b [condition="outcome=fail"]; a -> c; b -> exit; c -> exit'
    )
    assert result.status == "failed"
    assert "never ran" in graphs.failure(result)


@pytest.mark.parametrize(("limit", "whose"), [("a [max_visits=3]", "the node's"), ("max_node_visits=3", "the graph's")])
def test_a_visit_limit_of_n_allows_exactly_n(graphs: Graphs, limit: str, whose: str) -> None:
    result = graphs.run(f'{A} {limit} start -> a; a -> b; b -> a; b -> exit [condition="outcome=fail"]')
    assert result.status == "failed"
    assert graphs.path().count("a") == 3
    assert whose in graphs.failure(result)
    assert "stuck" in graphs.failure(result)


def test_a_graph_without_any_limit_stops_by_itself(graphs: Graphs) -> None:
    body = 'c [shape=diamond] d [shape=diamond] start -> c -> d -> c; d -> exit [condition="outcome=fail"]'
    result = graphs.run(body)
    assert result.status == "failed"
    assert "built-in" in graphs.failure(result)


def test_the_same_failure_again_and_again_ends_the_run(graphs: Graphs) -> None:
    graphs.answers["a"] = [{"fail": "error 17 at 0x1f"}, {"fail": "error 18 at 0x2f"}, {"fail": "error 19 at 0x3f"}]
    result = graphs.run(f'{A} start -> a; a -> b [condition="outcome=fail"]; a -> exit; b -> a')
    assert result.status == "failed"
    assert "limit 3" in graphs.failure(result)
    assert graphs.path().count("a") == 2 or graphs.path().count("a") == 3


def test_a_restart_begins_with_a_fresh_context_and_counts_on(graphs: Graphs) -> None:
    graphs.answers["a"] = {"text": "x", "directive": {"context_updates": {"k": "v"}}}
    graphs.answers["b"] = [say(outcome="success"), say(preferred_next_label="end")]
    body = f'{A} start -> a -> b; b -> a [label="again", weight=2, loop_restart=true]; b -> c [label="end"]; c -> exit'
    assert graphs.run(body).status == "succeeded"
    assert len(graphs.events("loop.restart")) == 1
    assert graphs.checkpoint()["completed_nodes"] == ["a", "b", "c"]
    assert graphs.checkpoint()["node_visits"]["a"] == 2


def test_only_a_passing_fault_may_cross_a_restart(graphs: Graphs) -> None:
    graphs.answers["a"] = {"fail": "wrong answer"}
    result = graphs.run(f'{A} start -> a; a -> b [condition="outcome=fail", loop_restart=true]; a -> exit; b -> exit')
    assert result.status == "failed"
    assert "loop_restart blocked" in graphs.failure(result)


def test_conditions_see_the_context_and_the_class_of_a_failure(graphs: Graphs) -> None:
    graphs.answers["a"] = {"fail": "rate limit 429", "retryable": True}
    body = f'{A} start -> a; a -> b [condition="outcome=fail && failure_class=transient_infra"]; a -> c [condition="outcome=fail"]; a -> exit; b -> exit; c -> exit'
    graphs.run(body)
    assert graphs.path() == ["start", "a", "b"]
    assert graphs.context()["failure_class"] in ("transient_infra", "")


def test_an_unclear_verdict_never_passes(graphs: Graphs) -> None:
    graphs.answers["a"] = say(outcome="probably")
    result = graphs.run(f"{A} start -> a -> exit")
    assert result.status == "failed"
    assert "probably" in graphs.failure(result)


def test_a_failure_reaches_a_diamond_that_asks_for_it(graphs: Graphs) -> None:
    body = (
        f'{A} gate [shape=diamond] start -> a -> gate; gate -> b [condition="outcome=fail"]; '
        'gate -> c [condition="outcome=success"]; b -> exit; c -> exit'
    )
    graphs.answers["a"] = {"fail": "it broke"}
    assert graphs.run(body).status == "succeeded"
    assert graphs.path() == ["start", "a", "gate", "b"]
    graphs.answers["a"] = "fine"
    assert graphs.run(body).status == "succeeded"
    assert graphs.path() == ["start", "a", "gate", "c"]


def test_a_failure_does_not_slip_through_a_diamond_either(graphs: Graphs) -> None:
    graphs.answers["a"] = {"fail": "it broke"}
    body = f'{A} gate [shape=diamond] start -> a -> gate; gate -> b [condition="outcome=success"]; gate -> c; b -> exit; c -> exit'
    graphs.run(body)
    assert "b" not in graphs.path()
