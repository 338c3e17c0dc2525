"""The run directory is a fold of the log: live, caught up after a kill, or made anew, it is the same."""

import json
import shutil
from pathlib import Path

import pytest

from perdure.base.jsonvalue import encode
from perdure.disk.blobs import Blobs
from perdure.kernel.events import Event, parse_line
from perdure.kernel.interviewer import PendingQuestion
from perdure.kernel.question import Answer, Option, Question
from perdure.views.gate_files import GateFiles, parse_response, read_response, write_response
from perdure.views.rebuild import rebuild_run_directory
from perdure.views.restore import read_run_directory
from perdure.views.run_directory import RunDirectory, last_written_seq

NODE = {"node_id": "plan", "node_label": "Plan", "handler_type": "agent", "attempt": 1, "max_attempts": 1}


def log(blobs: Blobs) -> list[Event]:
    """A realistic log with every event that writes a file."""
    big = blobs.put(b"long output\n" * 10_000)
    question = {"question_id": "Q1", "question": "Ok?", "question_type": "yes_no", "options": [], "timeout_ms": 5000}
    facts: list[tuple[str, str | None, dict[str, object]]] = [
        ("run.created", None, {"definition": {"kind": "graph", "name": "g", "body": {}}, "graph": {"nodes": {}}, "workflow_source": "digraph", "workflow_config": "version = 1", "labels": {"a": "b"}, "goal": "G"}),
        ("run.submitted", None, {}),
        ("run.started", None, {"run_branch": "perdure/run/R", "base_sha": "abc"}),
        ("step.started", "plan", NODE),
        ("step.prompt", "plan", {"node_id": "plan", "text": "Do it", "provider_used": {"mode": "command"}}),
        ("step.completed", "plan", NODE | {"duration_ms": 5, "result": {"status": "succeeded", "response": "Done", "usage": {"input_tokens": 3}}}),
        ("checkpoint.completed", None, {"node_id": "plan", "step_id": "plan", "current_node": "plan", "completed": "plan", "next_node_id": "test", "context_values_set": {"k": 1, "big": "file://x"}, "offloaded": {"big": "value"}, "node_outcomes_set": {"plan": "succeeded"}}),
        ("checkpoint.completed", None, {"node_id": "plan", "step_id": "plan", "git_commit_sha": "def", "diff": "a patch"}),
        ("step.started", "test", NODE | {"node_id": "test"}),
        ("command.started", "test", {"command": "make", "language": "shell", "timeout_ms": 1000}),
        ("command.completed", "test", {"stdout": {"$blob": big, "bytes": 120_000, "form": "text"}, "stderr": "err", "exit_code": 1, "timed_out": False, "duration_ms": 7}),
        ("step.failed", "test", NODE | {"node_id": "test", "failure": {"message": "no"}, "will_retry": True, "duration_ms": 7}),
        ("step.failed", "test", NODE | {"node_id": "test", "failure": {"message": "no"}, "will_retry": False, "duration_ms": 7}),
        ("step.started", "test@2", NODE | {"node_id": "test"}),
        ("step.completed", "test@2", NODE | {"node_id": "test", "result": {"status": "succeeded"}}),
        ("interview.started", "gate/answer", question),
        ("run.waiting", None, {"questions": ["Q1"]}),
        ("run.running", None, {}),
        ("interview.completed", "gate/answer", {"question_id": "Q1", "answer": {"kind": "yes"}}),
        ("step.started", "fork", NODE | {"node_id": "fork"}),
        ("parallel.completed", "fork", {"node_id": "fork", "results": [{"id": "a", "status": "succeeded"}]}),
        ("step.completed", "fork", NODE | {"node_id": "fork", "result": {"status": "succeeded"}}),
        ("retro.completed", None, {"retro": {"smoothness_rating": "smooth"}}),
        ("run.completed", None, {"status": "succeeded", "duration_ms": 99, "final_git_commit_sha": "def", "final_patch": "all"}),
    ]  # fmt: skip
    return [
        Event(seq.to_bytes(16, "big"), 1_700_000_000_000 + seq, "R" * 26, seq, name, step, encode(body))
        for seq, (name, step, body) in enumerate(facts, 1)
    ]


def files(folder: Path) -> dict[str, bytes]:
    """Every file but those that tell of one owner's own time."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "cli.log"
    }


def live(folder: Path, events: list[Event], blobs: Blobs, *, together: bool = False) -> RunDirectory:
    view = RunDirectory(str(folder), blobs)
    for event in [] if together else events:
        view.committed([event])
        view.flush()
    if together:
        view.committed(events)
        view.flush()
    return view


def test_every_file_of_a_run_is_there_with_its_fields(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    folder = tmp_path / "run"
    live(folder, log(blobs), blobs)

    assert set(files(folder)) == {
        "run.json", "start.json", "workflow.fabro", "workflow.toml", "progress.jsonl", "live.json", "checkpoint.json", "conclusion.json",
        "final.patch", "retro.json", "nodes/plan/prompt.md", "nodes/plan/response.md", "nodes/plan/status.json", "nodes/plan/diff.patch",
        "nodes/plan/provider_used.json", "nodes/test/script_invocation.json", "nodes/test/stdout.log", "nodes/test/stderr.log",
        "nodes/test/script_timing.json", "nodes/test/status.json", "nodes/test-visit_2/status.json", "nodes/fork/status.json",
        "nodes/fork/parallel_results.json", "cache/artifacts/values/big.json",
    }  # fmt: skip
    status = json.loads((folder / "nodes/test/status.json").read_text())
    assert list(status) == ["status", "notes", "failure_reason", "timestamp"]
    assert (status["status"], status["notes"], status["failure_reason"]) == ("failed", None, "no")
    checkpoint = json.loads((folder / "checkpoint.json").read_text())
    assert checkpoint["git_commit_sha"] == "def"
    assert {
        "current_node",
        "completed_nodes",
        "node_retries",
        "context_values",
        "node_outcomes",
        "next_node_id",
    } <= checkpoint.keys()
    conclusion = json.loads((folder / "conclusion.json").read_text())
    assert conclusion["total_input_tokens"] == 3
    assert "total_output_tokens" not in conclusion
    assert (folder / "nodes/test/stdout.log").stat().st_size == 120_000
    assert json.loads((folder / "start.json").read_text())["run_branch"] == "perdure/run/R"


def test_event_by_event_at_once_and_anew_are_the_same(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    events = log(blobs)
    live(tmp_path / "one", events, blobs)
    live(tmp_path / "two", events, blobs, together=True)
    shutil.copytree(tmp_path / "one", tmp_path / "three")
    for path in (tmp_path / "three/run.json", tmp_path / "three/nodes/plan/status.json"):
        path.unlink()
    (tmp_path / "three/checkpoint.json").write_bytes(b"")
    rebuild_run_directory(str(tmp_path / "three"), events, blobs)

    assert files(tmp_path / "one") == files(tmp_path / "two") == files(tmp_path / "three")


@pytest.mark.parametrize("cut", range(1, 25))
def test_after_a_kill_at_any_event_the_rest_is_made_up(tmp_path: Path, cut: int) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    events = log(blobs)
    live(tmp_path / "whole", events, blobs)
    live(tmp_path / "cut", events[:cut], blobs)
    late = RunDirectory(str(tmp_path / "cut"), blobs)
    late.catch_up(events)

    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_a_torn_line_in_the_log_is_made_up_for(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    events = log(blobs)
    live(tmp_path / "run", events[:10], blobs)
    progress = tmp_path / "run/progress.jsonl"
    progress.write_bytes(progress.read_bytes()[:-20])
    RunDirectory(str(tmp_path / "run"), blobs).catch_up(events)

    restored = read_run_directory(str(tmp_path / "run"))
    assert restored.events == events
    assert len(restored.problems) == 1
    assert last_written_seq(str(progress)) == len(events)


def test_a_log_with_a_gap_is_taken_up_to_the_gap_and_says_so(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    events = log(blobs)
    live(tmp_path / "run", events, blobs)
    progress = tmp_path / "run/progress.jsonl"
    lines = progress.read_bytes().splitlines(keepends=True)
    progress.write_bytes(b"".join(lines[:5] + lines[4:6] + lines[8:]))
    restored = read_run_directory(str(tmp_path / "run"))

    assert restored.events == events[:6]
    assert "follows event 6" in restored.problems[0]


def test_an_event_comes_back_from_its_line(tmp_path: Path) -> None:
    for event in log(Blobs(str(tmp_path))):
        assert parse_line(event.line()) == event
        assert event.line().endswith(b"\n")
        assert event.line().count(b"\n") == 1


def test_an_edit_of_a_file_never_reaches_its_blob(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    live(tmp_path / "run", log(blobs), blobs)
    (tmp_path / "run/nodes/test/stdout.log").write_text("edited")
    rebuild_run_directory(str(tmp_path / "run"), log(blobs), blobs)
    assert (tmp_path / "run/nodes/test/stdout.log").stat().st_size == 120_000


@pytest.mark.parametrize(
    ("value", "kind"),
    [({"value": "Yes"}, "yes"), ({"value": "Aborted"}, "aborted"), ({"value": {"Selected": "A"}}, "selected"),
     ({"value": {"MultiSelected": ["A", "B"]}}, "multi_selected"), ({"value": {"Text": "t"}}, "text"),
     ({"value": {"Selected": "Z"}}, None), ({}, None), (["x"], None), ({"value": "Perhaps"}, None)],
)  # fmt: skip
def test_answers_in_files_are_read_in_every_shape_and_nothing_else_is(value: object, kind: str | None) -> None:
    question = Question("?", "multiple_choice", [Option("A", "a"), Option("B", "b")])
    answer = parse_response(value, question)
    assert (answer.kind if answer else None) == kind


def test_an_answer_is_for_the_question_that_it_names(tmp_path: Path) -> None:
    question = Question("?", "multiple_choice", [Option("A", "a"), Option("B", "b")])
    first, second = (PendingQuestion(q, "R", str(tmp_path), "s", question) for q in ("Q1", "Q2"))
    write_response(str(tmp_path), "Q2", Answer("selected", ["B"]))
    assert read_response(first) is None
    answer = read_response(second)
    assert answer is not None
    assert answer.selected == ["B"]
    assert not GateFiles.is_present
