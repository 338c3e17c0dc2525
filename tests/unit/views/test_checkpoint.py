"""The fold of checkpoints."""

from perdure.views import checkpoint

AT = "2026-03-07T09:30:00.125Z"


def test_a_checkpoint_carries_only_what_changed() -> None:
    first = checkpoint.fold(
        checkpoint.empty(),
        {"current_node": "plan", "completed": "plan", "next_node_id": "work", "context_values_set": {"a": 1, "b": 2}, "node_outcomes_set": {"plan": "succeeded"}},
        AT,
    )  # fmt: skip
    second = checkpoint.fold(first, {"context_values_set": {"a": 3}, "context_values_removed": ["b"]}, AT)

    assert second == first | {"context_values": {"a": 3}}
    assert first["context_values"] == {"a": 1, "b": 2}


def test_the_commit_of_a_node_comes_later_and_changes_nothing_else() -> None:
    before = checkpoint.fold(checkpoint.empty(), {"current_node": "plan", "completed": "plan"}, AT)

    assert checkpoint.fold(before, {"git_commit_sha": "abc"}, AT) == before | {"git_commit_sha": "abc"}


def test_a_restart_begins_anew_but_remembers_what_was_counted() -> None:
    before = checkpoint.fold(
        checkpoint.empty(),
        {"completed": "plan", "context_values_set": {"a": 1}, "node_visits_set": {"plan": 1}, "restart_failure_signatures": {"s": 1}},
        AT,
    )  # fmt: skip
    after = checkpoint.fold(before, {"reset": True, "next_node_id": "plan"}, AT)

    assert (after["completed_nodes"], after["context_values"], after["next_node_id"]) == ([], {}, "plan")
    assert after["restart_failure_signatures"] == {"s": 1}


def test_values_of_another_kind_are_left_out() -> None:
    nonsense = {"context_values_set": [1], "context_values_removed": "a", "node_outcomes_set": None}

    assert checkpoint.fold(checkpoint.empty(), nonsense, AT) == checkpoint.empty() | {"timestamp": AT}  # type: ignore[arg-type]
