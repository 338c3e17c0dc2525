"""The run directory that a person finds: each file at the time and with the fields that are promised, made by real runs.

One test a promise; what the files look like after damage, and when they are made anew, is tested with the views."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED, HELLO, until

WORKFLOW = """digraph whole {
    goal = "Show every file"
    retry_target = work
    start [shape=Mdiamond]
    exit [shape=Msquare]
    plan [prompt="Plan it"]
    work [shape=parallelogram, script="echo line >> made.txt; ls -a .. > seen; echo out; echo err >&2"]
    test [shape=parallelogram, script="mkdir -p test-results; echo shot > test-results/screenshot.png; test $(wc -l < made.txt) = 2"]
    large [shape=parallelogram, script="head -c 150000 /dev/zero | tr '\\\\0' x"]
    broad [shape=tab, prompt="Say much"]
    manager [shape=house, stack.child_workflow="child.fabro"]
    gate [shape=hexagon, label="Good?"]
    start -> plan -> work -> test
    test -> large [condition="outcome=succeeded"]
    test -> work [condition="outcome=failed"]
    large -> broad -> manager -> gate
    gate -> exit [label="[Y] Yes"]
}"""
CHILD = 'digraph child { start [shape=Mdiamond] exit [shape=Msquare] inner [shape=parallelogram, script="echo inner"] start -> inner -> exit }'
TOML = 'version = 1\ngraph = "workflow.fabro"\n[artifacts]\ninclude = ["test-results/**"]\n'
ANSWERS = {"answers": {"plan": "The plan.", "broad": "y" * 120_000}}


class Whole(NamedTuple):
    """A run that has been through everything: its directory while it waited, then at its end."""

    waiting: dict[str, str]
    folder: Path

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())


def call(root: Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "perdure.cli.entry", *arguments],
        cwd=root / "repository",
        env={**os.environ, "PERDURE_STATE_HOME": str(root / "state")},
        capture_output=True,
        text=True,
        timeout=45,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole")
    repository = root / "repository"
    repository.mkdir()
    (repository / "workflow.fabro").write_text(WORKFLOW)
    (repository / "child.fabro").write_text(CHILD)
    (repository / "workflow.toml").write_text(TOML)
    (root / "answers.json").write_text(json.dumps(ANSWERS))
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)
    given = ["--backend", "scripted", "--script", str(root / "answers.json"), "--label", "team=blue"]
    call(root, "run", "workflow.toml", *given, code=4)
    [folder] = (root / "state" / "runs").iterdir()
    waiting = {
        str(path.relative_to(folder)): path.read_text(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and "worktree" not in path.parts
    }
    call(root, "answer", "whole", "Y")
    call(root, "resume", "whole")
    return Whole(waiting, folder)


def test_a_directory_is_named_by_its_local_date_and_its_runs_id(whole: Whole) -> None:
    assert re.fullmatch(r"\d{8}-[0-9A-HJKMNP-TV-Z]{26}", whole.folder.name)
    assert whole.folder.name.endswith(whole.json("run.json")["run_id"])


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "run.json",
            "run_id created_at config graph workflow_slug working_directory host_repo_path base_branch labels",
        ),
        ("start.json", "run_id start_time run_branch base_sha"),
        (
            "checkpoint.json",
            """timestamp current_node completed_nodes node_retries context_values node_outcomes next_node_id git_commit_sha
            loop_failure_signatures restart_failure_signatures node_visits""",
        ),
        ("conclusion.json", "status duration_ms failure_reason final_git_commit_sha"),
        ("retro.json", "smoothness_rating learnings friction_points stages"),
        ("nodes/plan/status.json", "status notes failure_reason timestamp"),
        ("nodes/work/status.json", "status notes failure_reason timestamp"),
        ("nodes/work/script_invocation.json", "command language timeout_ms"),
        ("nodes/work/script_timing.json", "duration_ms exit_code timed_out"),
        (
            "cache/artifacts/files/test/retry_1/manifest.json",
            "files_copied total_bytes files_skipped download_errors hash_errors captured_assets",
        ),
    ],
)
def test_a_file_has_its_fields(whole: Whole, name: str, fields: str) -> None:
    assert set(fields.split()) - whole.json(name).keys() == set()


def test_the_records_say_what_the_run_was(whole: Whole) -> None:
    run, start, end = whole.json("run.json"), whole.json("start.json"), whole.json("conclusion.json")

    assert (run["labels"], run["base_branch"]) == ({"team": "blue"}, "main")
    assert run["graph"]["nodes"]["plan"]["attrs"]["prompt"] == {"String": "Plan it"}
    assert start["run_branch"] == f"perdure/run/{run['run_id']}"
    assert end["status"] in ("succeeded", "success")
    assert end["duration_ms"] > 0
    assert end["final_git_commit_sha"] != start["base_sha"]


def test_the_sources_are_copied_as_they_were(whole: Whole) -> None:
    assert (whole.folder / "workflow.fabro").read_text() == WORKFLOW
    assert (whole.folder / "workflow.toml").read_text() == TOML


@pytest.mark.parametrize(
    "name",
    ["run.json", "start.json", "workflow.fabro", "workflow.toml", "progress.jsonl", "live.json", "cli.log", "checkpoint.json", "worktree", "nodes"],
)  # fmt: skip
def test_a_file_is_there_while_the_run_is_at_work(whole: Whole, name: str) -> None:
    """A command looked at its own run's directory."""
    seen = subprocess.run(
        ["git", "show", f"perdure/run/{whole.json('run.json')['run_id']}:seen"],
        cwd=whole.json("run.json")["host_repo_path"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    assert name in seen
    assert not {"conclusion.json", "final.patch", "retro.json"} & {*seen}


def test_what_tells_of_the_end_is_written_at_the_end(whole: Whole) -> None:
    for name in ("conclusion.json", "final.patch", "retro.json"):
        assert name not in whole.waiting
        assert (whole.folder / name).exists()


def test_a_checkpoint_is_of_the_last_node_and_knows_the_next(whole: Whole) -> None:
    found = json.loads(whole.waiting["checkpoint.json"])

    assert (found["current_node"], found["next_node_id"]) == ("manager", "gate")
    assert found["completed_nodes"][:2] == ["start", "plan"]
    assert found["node_visits"]["work"] == 2


def test_the_log_has_an_event_a_line_and_the_newest_one_is_live(whole: Whole) -> None:
    events = [json.loads(line) for line in (whole.folder / "progress.jsonl").read_text().splitlines()]

    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {"id", "ts", "run_id", "event", "properties"} <= events[0].keys()
    assert (events[0]["event"], events[-1]["event"]) == ("run.created", "run.completed")
    assert whole.json("live.json")["event"] == "run.completed"
    assert json.loads(whole.waiting["live.json"])["status"] == "waiting"
    assert "work" in (whole.folder / "cli.log").read_text()


def test_the_patch_of_the_run_is_what_its_branch_changed(whole: Whole) -> None:
    start, end = whole.json("start.json"), whole.json("conclusion.json")
    shown = subprocess.run(
        ["git", "diff", start["base_sha"], end["final_git_commit_sha"]],
        cwd=whole.json("run.json")["host_repo_path"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert (whole.folder / "final.patch").read_text() == shown
    assert "made.txt" in shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nodes/plan/prompt.md", "Plan it"),
        ("nodes/plan/response.md", "The plan."),
        ("nodes/broad/response.md", "yyyy"),
        ("nodes/work/stdout.log", "out\n"),
        ("nodes/work/stderr.log", "err\n"),
        ("nodes/work/diff.patch", "made.txt"),
        ("nodes/work-visit_2/diff.patch", "made.txt"),
        ("nodes/work-visit_2/stdout.log", "out\n"),
        ("nodes/test/status.json", "fail"),
        ("nodes/test-visit_2/status.json", "succe"),
        ("cache/artifacts/files/test/retry_1/test-results/screenshot.png", "shot"),
        ("cache/artifacts/values/response.broad.json", "yyyy"),
        ("cache/artifacts/values/command.output.json", "xxxx"),
        ("nodes/manager/child/nodes/inner/stdout.log", "inner\n"),
    ],
)
def test_a_file_says_what_happened(whole: Whole, name: str, text: str) -> None:
    found = whole.waiting.get(name) or (whole.folder / name).read_text()

    assert text in found


def test_no_node_is_visited_without_a_status(whole: Whole) -> None:
    assert [path.name for path in (whole.folder / "nodes").iterdir() if not (path / "status.json").exists()] == []
    assert not (whole.folder / "nodes" / "work-visit_3").exists()


@pytest.mark.parametrize(
    "name", ["run.json", "start.json", "checkpoint.json", "conclusion.json", "progress.jsonl", "nodes"]
)
def test_a_manager_has_its_childs_whole_directory(whole: Whole, name: str) -> None:
    assert (whole.folder / "nodes" / "manager" / "child" / name).exists()


def test_a_gate_has_its_question_in_a_file_while_it_waits(whole: Whole) -> None:
    asked = json.loads(whole.waiting["runtime/interview_request.json"])

    assert (asked["text"], asked["stage"], asked["allow_freeform"]) == ("Good?", "gate", False)
    assert asked["options"] == [{"key": "Y", "label": "Yes"}]
    assert {"question_type", "default", "timeout_seconds", "metadata", "context_display"} <= asked.keys()
    assert not (whole.folder / "runtime" / "interview_request.json").exists()


# Runs of other kinds


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    path = tmp_path / "hello.fabro"
    path.write_text(HELLO % '"echo hi"')
    return path


def only(tmp_path: Path, state: str = "state") -> Path:
    [folder] = (tmp_path / state / "runs").iterdir()
    return folder


def test_a_run_that_was_made_and_not_started_has_its_record_and_sources(
    perdure: Perdure, hello: Path, tmp_path: Path
) -> None:
    perdure("create", hello).succeeded()
    names = {path.name for path in only(tmp_path).iterdir()}

    assert {"run.json", "workflow.fabro", "progress.jsonl"} <= names
    assert not names & {"start.json", "workflow.toml", "checkpoint.json", "conclusion.json"}


def test_without_git_nothing_of_git_is_there(perdure: Perdure, hello: Path, tmp_path: Path) -> None:
    perdure("run", hello).succeeded()
    names = {path.name for path in only(tmp_path).rglob("*")}

    assert not names & {"final.patch", "diff.patch", "worktree", "workflow.toml"}
    assert json.loads((only(tmp_path) / "start.json").read_text()).keys() >= {"run_id", "start_time"}


def test_no_retrospective_is_written_when_none_is_wanted(perdure: Perdure, hello: Path, tmp_path: Path) -> None:
    perdure("run", hello, "--no-retro").succeeded()

    assert not (only(tmp_path) / "retro.json").exists()


def test_the_state_can_be_somewhere_else(perdure: Perdure, hello: Path, tmp_path: Path) -> None:
    perdure("--state-dir", tmp_path / "elsewhere", "run", hello).succeeded()

    assert (only(tmp_path, "elsewhere") / "conclusion.json").exists()
    assert not (tmp_path / "state").exists()


def test_a_run_that_was_killed_has_no_conclusion(perdure: Perdure, tmp_path: Path) -> None:
    from .workflows import started

    (tmp_path / "slow.fabro").write_text(HELLO % '"touch began; sleep 60"')
    process = started(perdure, tmp_path / "slow.fabro")
    until((tmp_path / "began").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert not (only(tmp_path) / "conclusion.json").exists()
    assert perdure("ps", "--json").json[0]["status"] == "interrupted"
    perdure("cancel", "slow").succeeded()


@pytest.mark.parametrize("value", [{"value": {"Selected": "N"}}, {"value": {"Selected": "N"}, "selected_option": "N"}])
def test_a_gate_is_answered_by_a_file(perdure: Perdure, tmp_path: Path, value: dict[str, Any]) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    (only(tmp_path) / "runtime" / "interview_response.json").write_text(json.dumps(value))
    perdure("resume", "gated").succeeded()

    assert (tmp_path / "count").read_text().split() == ["before"]


def test_a_pid_file_of_older_tools_is_left_alone(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    (only(tmp_path) / "run.pid").write_text(str(os.getpid()))
    perdure("answer", "gated", "N").succeeded()
    perdure("resume", "gated").succeeded()

    assert (only(tmp_path) / "run.pid").read_text() == str(os.getpid())


def test_runs_are_listed_and_filtered_by_their_workflow(perdure: Perdure, hello: Path, tmp_path: Path) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    perdure("run", hello).succeeded()
    assert perdure("run", "gated.fabro").code == 4
    names: Callable[..., list[str]] = lambda *more: [each["name"] for each in perdure("ps", "-a", "--json", *more).json]

    assert names() == ["gated", "hello"]
    assert names("--filter", "workflow=hello") == ["hello"]
    assert "gated" in perdure("ps").out
