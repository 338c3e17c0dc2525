"""Answers that lie in files go to the question that they are for, whole and valid, or nowhere."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perdure.base.jsonvalue import JSON
from perdure.disk.blobs import Blobs
from perdure.kernel.interviewer import PendingQuestion
from perdure.kernel.question import Answer, AnswerKind, Option, Question
from perdure.views.gate_files import GateFiles, claim, parse_response, read_response, release_claim, write_response

from .logs import BEGIN, answered, asked, events_of, write_live

QUESTION = Question("Ship it?", "multiple_choice", [Option("A", "Approve"), Option("R", "Revise")])


def _pending(run_dir: Path, question_id: str) -> PendingQuestion:
    return PendingQuestion(question_id, "R", str(run_dir), "gate", QUESTION)


def _answer(run_dir: Path, value: JSON, *, at_ns: int | None = None) -> None:
    path = run_dir / "runtime/interview_response.json"
    path.write_bytes(msgspec.json.encode(value))
    if at_ns is not None:
        os.utime(path, ns=(at_ns, at_ns))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with two open questions; Q1 is shown."""
    write_live(tmp_path / "run", events_of([*BEGIN, asked("Q1", timeout_ms=1500), asked("Q2")]), Blobs(str(tmp_path)))
    return tmp_path / "run"


def test_the_oldest_open_question_is_shown_and_each_has_its_own_file(run_dir: Path) -> None:
    shown = msgspec.json.decode((run_dir / "runtime/interview_request.json").read_bytes())

    assert shown == {
        "question_id": "Q1", "text": "Ship it?", "question_type": "multiple_choice",
        "options": [{"key": "A", "label": "Approve"}, {"key": "R", "label": "Revise"}], "allow_freeform": None, "default": None,
        "timeout_seconds": 1.5, "stage": "gate", "step": "gate/Q1", "metadata": {"node_id": "gate"}, "context_display": None,
    }  # fmt: skip
    assert sorted(os.listdir(run_dir / "runtime/interview_requests")) == ["Q1.json", "Q2.json"]


def test_an_answer_without_an_id_is_for_the_question_that_is_shown(run_dir: Path) -> None:
    _answer(run_dir, {"value": {"Selected": "A"}})

    assert read_response(_pending(run_dir, "Q1")) == Answer("selected", ["A"], by="file")
    assert read_response(_pending(run_dir, "Q2")) is None


def test_an_answer_without_an_id_that_is_older_than_the_question_is_for_none(run_dir: Path) -> None:
    _answer(run_dir, {"value": {"Selected": "A"}}, at_ns=1_000_000_000)

    assert read_response(_pending(run_dir, "Q1")) is None


def test_an_answer_survives_that_its_question_is_written_again(tmp_path: Path, run_dir: Path) -> None:
    """The owner dies right after the question's file was written, a person answers, the next owner writes the question again."""
    progress = run_dir / "progress.jsonl"
    progress.write_bytes(b"".join(event.line() for event in events_of(BEGIN)))
    _answer(run_dir, {"value": {"Selected": "A"}})
    from perdure.views.run_directory import RunDirectory

    events = events_of([*BEGIN, asked("Q1", timeout_ms=1500), asked("Q2")])
    RunDirectory(str(run_dir), Blobs(str(tmp_path))).catch_up(events)

    assert read_response(_pending(run_dir, "Q1")) == Answer("selected", ["A"], by="file")


@pytest.mark.parametrize(
    ("value", "stays"),
    [
        ({"question_id": "Q2", "value": {"Selected": "A"}}, True),
        ({"question_id": "Q1", "value": {"Selected": "A"}}, False),
        ({"question_id": "Q0", "value": {"Selected": "A"}}, False),
        ({"value": {"Selected": "A"}}, False),
    ],
)
def test_when_a_question_closes_only_the_answers_of_open_ones_stay(
    tmp_path: Path, run_dir: Path, value: JSON, stays: bool
) -> None:
    _answer(run_dir, value)
    from perdure.views.run_directory import RunDirectory

    events = events_of([*BEGIN, asked("Q1", timeout_ms=1500), asked("Q2"), answered("Q1")])
    RunDirectory(str(run_dir), Blobs(str(tmp_path))).catch_up(events)

    assert (run_dir / "runtime/interview_response.json").exists() == stays
    shown = msgspec.json.decode((run_dir / "runtime/interview_request.json").read_bytes())
    assert shown["question_id"] == "Q2"


def test_a_file_that_is_no_answer_does_not_keep_its_question_from_closing(tmp_path: Path, run_dir: Path) -> None:
    (run_dir / "runtime/interview_response.json").write_bytes(b"[" * 100_000)
    from perdure.views.run_directory import RunDirectory

    events = events_of([*BEGIN, asked("Q1", timeout_ms=1500), asked("Q2"), answered("Q1")])
    RunDirectory(str(run_dir), Blobs(str(tmp_path))).catch_up(events)

    assert not (run_dir / "runtime/interview_response.json").exists()


def test_when_the_last_question_closes_no_request_is_left(tmp_path: Path, run_dir: Path) -> None:
    from perdure.views.run_directory import RunDirectory

    events = events_of([*BEGIN, asked("Q1", timeout_ms=1500), asked("Q2"), answered("Q2"), answered("Q1")])
    RunDirectory(str(run_dir), Blobs(str(tmp_path))).catch_up(events)

    assert [path for path in (run_dir / "runtime").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("kind", "selected", "text"),
    [
        ("yes", [], None),
        ("no", [], None),
        ("selected", ["A"], None),
        ("multi_selected", ["A", "R"], None),
        ("text", [], "so"),
    ],
)
def test_an_answer_comes_back_from_its_file(
    run_dir: Path, kind: AnswerKind, selected: list[str], text: str | None
) -> None:
    write_response(str(run_dir), "Q2", Answer(kind, selected, text))

    assert read_response(_pending(run_dir, "Q2")) == Answer(kind, selected, text, by="file")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"\0" * 4096, b'{"value": "Y', b"null"])
def test_a_half_or_foreign_file_is_no_answer(run_dir: Path, content: bytes) -> None:
    (run_dir / "runtime/interview_response.json").write_bytes(content)

    assert read_response(_pending(run_dir, "Q1")) is None


@pytest.mark.parametrize(
    "value",
    [
        {"Selected": ["A"]},
        {"Selected": None},
        {"MultiSelected": [["A"]]},
        {"MultiSelected": "AR"},
        {"Text": 1},
        7,
        [],
        None,
    ],
)
def test_a_value_of_another_kind_is_no_answer(value: JSON) -> None:
    assert parse_response({"value": value}, QUESTION) is None


def test_the_interviewer_hands_over_an_answer_that_comes_later(run_dir: Path) -> None:
    async def ask() -> Answer | None:
        asking = asyncio.create_task(GateFiles().ask(_pending(run_dir, "Q2")))
        await asyncio.sleep(0)
        write_response(str(run_dir), "Q2", Answer("selected", ["R"]))
        return await asyncio.wait_for(asking, 10)

    assert asyncio.run(ask()) == Answer("selected", ["R"], by="file")


_CLAIMER = """
import sys
from perdure.views.gate_files import claim
print("yes" if claim(sys.argv[1]) else "no", flush=True)
sys.stdin.read()
"""


def test_one_living_process_at_a_time_shows_the_question(run_dir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CLAIMER, str(run_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "yes\n"
        assert (run_dir / "runtime/interview_request.claim").read_text() == str(other.pid)
        assert not claim(str(run_dir))
        other.kill()

    assert claim(str(run_dir))
    assert claim(str(run_dir))
    assert (run_dir / "runtime/interview_request.claim").read_text() == str(os.getpid())
    release_claim(str(run_dir))
    assert not (run_dir / "runtime/interview_request.claim").exists()
    release_claim(str(run_dir))
