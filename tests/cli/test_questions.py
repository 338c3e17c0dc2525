"""Answers reach the question that they are meant for, once, and only from a person."""

import json
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED, only_run, until

TWO = """digraph two {
    start [shape=Mdiamond] exit [shape=Msquare]
    fork [shape=component] join [shape=tripleoctagon]
    left [shape=hexagon, label="Left?"] right [shape=hexagon, label="Right?"]
    a [shape=parallelogram, script="echo a >> $PWD/count"] b [shape=parallelogram, script="echo b >> $PWD/count"]
    start -> fork
    fork -> left
    fork -> right
    left -> a [label="[Y] Yes"]
    right -> b [label="[Y] Yes"]
    a -> join
    b -> join
    join -> exit
}"""


@pytest.fixture
def both(perdure: Perdure, tmp_path: Path) -> dict[str, str]:
    """Two open questions of one run: the ids by text."""
    (tmp_path / "two.dot").write_text(TWO)
    assert perdure("run", "two.dot").code == 4
    return {each["text"]: each["question_id"] for each in perdure("questions", "two", "--json").json}


def count(tmp_path: Path) -> list[str]:
    """What was done."""
    path = tmp_path / "count"
    return path.read_text().split() if path.exists() else []


def test_with_two_open_questions_the_id_must_be_given(perdure: Perdure, tmp_path: Path, both: dict[str, str]) -> None:
    ran = perdure("answer", "two", "Y")

    assert ran.code == 2
    assert all(question_id in ran.err for question_id in both.values())
    assert len(perdure("questions", "two", "--json").json) == 2


def test_only_the_branch_that_was_answered_moves(perdure: Perdure, tmp_path: Path, both: dict[str, str]) -> None:
    perdure("resume", "-d", "two").succeeded()
    perdure("answer", "two", "Y", "--question", both["Right?"]).succeeded()
    until(lambda: count(tmp_path) == ["b"])
    assert [each["text"] for each in perdure("questions", "two", "--json").json] == ["Left?"]

    perdure("answer", "two", "Y").succeeded()
    perdure("wait", "two", "--timeout", "20").succeeded()
    assert count(tmp_path) == ["b", "a"]


def test_the_first_answer_counts(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    perdure("answer", "gated", "N").succeeded()
    ran = perdure("answer", "gated", "Y", "--json")

    assert ran.code == 2
    assert json.loads(ran.err)["error"]["code"] == "already_answered"
    perdure("resume", "gated").succeeded()
    assert perdure("answer", "gated", "Y").code == 4
    assert count(tmp_path) == ["before"]


@pytest.mark.parametrize("said", ["Y", "y", "Yes", " yes "])
def test_a_choice_is_a_key_or_a_label_in_any_case(perdure: Perdure, tmp_path: Path, said: str) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    perdure("answer", "gated", said).succeeded()
    perdure("resume", "gated").succeeded()

    assert count(tmp_path) == ["before", "after"]


def test_an_approval_runs_nothing_again(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    assert only_run(perdure)["status"] == "waiting"
    for _ in range(3):
        assert perdure("resume", "gated").code == 4
    perdure("answer", "gated", "Y").succeeded()
    assert only_run(perdure)["status"] == "waiting"
    perdure("resume", "gated").succeeded()

    assert count(tmp_path) == ["before", "after"]


def test_the_step_of_a_child_run_cannot_answer_for_its_parent(
    perdure: Perdure, tmp_path: Path, state_home: Path
) -> None:
    import apsw

    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    parent = str(only_run(perdure)["run_id"])
    perdure("create", "gated.fabro").succeeded()
    child = str(perdure("ps", "--json").json[0]["run_id"])
    db = apsw.Connection(str(state_home / "state.sqlite"))
    db.execute("update runs set parent = ? where run_id = ?", (parent, child))
    db.close()

    assert perdure("answer", parent, "Y", env={"PERDURE_RUN_ID": child}).code == 2
    perdure("answer", parent, "Y", env={"PERDURE_RUN_ID": "01AAAAAAAAAAAAAAAAAAAAAAAA"}).succeeded()


def test_auto_approve_takes_the_first_choice(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    perdure("run", "gated.fabro", "--auto-approve").succeeded()

    assert count(tmp_path) == ["before", "after"]


def test_piped_words_are_no_answer(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)

    assert perdure("run", "gated.fabro", stdin="y\ny\ny\n").code == 4
    assert count(tmp_path) == ["before"]
