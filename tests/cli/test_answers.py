"""A run with gates that is repeated from a file of answers."""

import json
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED, until

LOOP = """digraph loop {
    start [shape=Mdiamond] exit [shape=Msquare]
    work [shape=parallelogram, script="echo work >> $PWD/count"]
    gate [shape=hexagon, label="Good?"]
    start -> work -> gate
    gate -> exit [label="[Y] Yes"]
    gate -> work [label="[N] No"]
}"""


@pytest.fixture(autouse=True)
def workflows(tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    (tmp_path / "loop.fabro").write_text(LOOP)


def write(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_lines_for_one_gate_are_for_its_visits_in_their_order(perdure: Perdure, tmp_path: Path) -> None:
    path = write(tmp_path, *({"node_id": "gate", "answer": each} for each in ("No", "n", "Y")))
    perdure("run", "loop.fabro", "--answers", path).succeeded()

    assert (tmp_path / "count").read_text().split() == ["work"] * 3


def test_a_question_without_a_line_parks_and_a_resumed_run_takes_the_line_of_its_visit(
    perdure: Perdure, tmp_path: Path
) -> None:
    path = write(tmp_path, {"node_id": "gate", "answer": "N"})
    assert perdure("run", "loop.fabro", "--answers", path).code == 4
    write(tmp_path, {"node_id": "gate", "answer": "N"}, {"node_id": "gate", "answer": "Y"})
    perdure("resume", "loop", "--answers", path).succeeded()

    assert (tmp_path / "count").read_text().split() == ["work"] * 2


def test_what_was_recorded_repeats_the_run(perdure: Perdure, tmp_path: Path) -> None:
    path = write(tmp_path, {"node_id": "gate", "answer": "N"}, {"node_id": "gate", "answer": "Y"})
    recorded = tmp_path / "recorded.jsonl"
    perdure("run", "loop.fabro", "--answers", path, "--record-answers", recorded).succeeded()
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    (tmp_path / "count").unlink()
    perdure("run", "loop.fabro", "--answers", recorded).succeeded()

    assert [line["step"] for line in lines] == ["gate/answer", "gate@2/answer"]
    assert (tmp_path / "count").read_text().split() == ["work"] * 2


def test_a_line_that_is_no_choice_is_told_and_answers_nothing(perdure: Perdure, tmp_path: Path) -> None:
    ran = perdure("run", "gated.fabro", "--answers", write(tmp_path, {"node_id": "gate", "answer": "perhaps"}))

    assert ran.code == 4
    assert "'perhaps' is no choice" in ran.err


@pytest.mark.parametrize("line", [{"answer": "Y"}, {"node_id": "gate"}, ["Y"], {"node_id": "gate", "answer": 5}])
def test_a_line_that_cannot_be_used_is_refused_with_its_number_before_anything_starts(
    perdure: Perdure, tmp_path: Path, line: object
) -> None:
    good = {"node_id": "gate", "answer": "Y"}
    for flags in ([], ["-d"]):
        ran = perdure("run", "gated.fabro", "--answers", write(tmp_path, good, line), *flags)
        assert ran.code == 2
        assert "answers.jsonl:2:" in ran.err
    assert not (tmp_path / "count").exists()


def test_a_detached_run_answers_from_the_file_too(perdure: Perdure, tmp_path: Path) -> None:
    path = write(tmp_path, {"node_id": "gate", "answer": "Y"})
    perdure("run", "-d", "gated.fabro", "--answers", "answers.jsonl", "--record-answers", "recorded.jsonl").succeeded()
    perdure("wait", "gated", "--timeout", "20").succeeded()
    until((tmp_path / "recorded.jsonl").exists)

    assert path.exists()
    assert len((tmp_path / "recorded.jsonl").read_text().splitlines()) == 1
