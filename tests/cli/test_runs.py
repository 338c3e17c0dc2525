"""Runs from the command line: started, parked, killed, resumed, answered, cancelled; with the exit codes of the reference."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Perdure, Ran  # type: ignore[import-not-found]

from .workflows import GATED, HELLO, is_gone, only_run, started, until


@pytest.fixture
def hello(tmp_path: Path) -> Callable[[str], Path]:
    def write(script: str) -> Path:
        path = tmp_path / "hello.fabro"
        path.write_text(HELLO % json.dumps(script))
        return path

    return write


@pytest.mark.parametrize(("script", "code", "status"), [("true", 0, "succeeded"), ("exit 3", 1, "failed")])
def test_the_exit_code_is_the_works_own_answer(
    perdure: Perdure, hello: Callable[[str], Path], script: str, code: int, status: str
) -> None:
    assert perdure("run", hello(script)).code == code
    assert only_run(perdure)["status"] == status


def test_a_listing_has_what_programs_rely_on(perdure: Perdure, hello: Callable[[str], Path]) -> None:
    perdure("run", hello("true")).succeeded()
    perdure("run", hello("true")).succeeded()
    runs = perdure("ps", "-a", "--json").succeeded().json

    assert [run["started_at"] for run in runs] == sorted((run["started_at"] for run in runs), reverse=True)
    for run in runs:
        assert {"run_id", "name", "kind", "status", "started_at"} <= run.keys()
        assert (run["name"], run["kind"]) == ("hello", "graph")


def test_a_graph_with_errors_starts_nothing(perdure: Perdure, tmp_path: Path, state_home: Path) -> None:
    path = tmp_path / "bad.fabro"
    path.write_text("digraph bad {\n  start [shape=Mdiamond]\n  start -> nowhere [label=]\n}")
    ran = perdure("run", path)

    assert ran.code == 2
    assert f"{path}:3:" in ran.err
    assert perdure("ps", "-a", "--json").json == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "nothing.fabro"),
        ("run",),
        ("unknown-command",),
        ("show", "../../etc/passwd"),
        ("show", ""),
        ("logs", "-x"),
        ("run", "hello.fabro", "--backend", "telepathy"),
        ("run", "hello.fabro", "--label", "no-equals-sign"),
    ],
)
def test_bad_usage_is_a_clear_error_without_a_traceback(
    perdure: Perdure, hello: Callable[[str], Path], arguments: tuple[str, ...]
) -> None:
    hello("true")
    ran = perdure(*arguments)

    assert ran.code in (2, 4)
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert ran.err.strip()


def test_errors_are_json_too(perdure: Perdure) -> None:
    ran = perdure("show", "01AAAAAAAA", "--json")

    assert ran.out == ""
    assert json.loads(ran.err)["error"]["code"] == "not_found"
    assert ran.code == 4


def test_without_a_terminal_a_gate_parks_the_run_and_never_is_a_yes(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    ran = perdure("run", path)
    assert ran.code == 4
    assert "perdure answer" in ran.out
    run = only_run(perdure)
    assert run["status"] == "waiting"

    assert perdure("resume", str(run["run_id"])).code == 4
    assert perdure("answer", "gated", "perhaps").code == 2
    perdure("answer", "gated", "yes").succeeded()
    assert perdure("answer", "gated", "no").code == 2
    perdure("resume", "gated").succeeded()
    assert (tmp_path / "count").read_text().split() == ["before", "after"]


def test_an_answer_may_lie_in_a_file(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    assert perdure("run", path).code == 4
    run_dir = Path(str(only_run(perdure)["run_dir"]))
    request = json.loads((run_dir / "runtime/interview_request.json").read_text())
    assert [option["key"] for option in request["options"]] == ["Y", "N"]
    temporary = run_dir / "runtime/new"
    temporary.write_text(json.dumps({"value": {"Selected": "N"}, "selected_option": "N", "text": None}))
    temporary.rename(run_dir / "runtime/interview_response.json")

    perdure("resume", str(run_dir)).succeeded()
    assert (tmp_path / "count").read_text().split() == ["before"]
    assert not (run_dir / "runtime/interview_request.json").exists()


def test_a_step_cannot_answer_for_a_person(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    assert perdure("run", path).code == 4
    run_id = str(only_run(perdure)["run_id"])
    ran = perdure("answer", run_id, "Y", env={"PERDURE_RUN_ID": run_id})

    assert ran.code == 2
    assert "person" in ran.err


@pytest.mark.crash
def test_a_killed_run_is_interrupted_for_everyone_and_goes_on(
    perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path
) -> None:
    path = hello("echo once >> count; if [ ! -f gate ]; then touch gate; sleep 60; fi")
    process = started(perdure, path)
    until((tmp_path / "gate").exists)
    process.kill()
    process.wait()

    run = only_run(perdure)
    assert run["status"] == "interrupted"
    assert "resume" in perdure("show", "hello").succeeded().out
    perdure("resume", "hello").succeeded()
    assert only_run(perdure)["status"] == "succeeded"
    log = (Path(str(run["run_dir"])) / "progress.jsonl").read_text()
    assert '"event":"step.interrupted"' in log


@pytest.mark.crash
def test_of_ten_that_resume_at_once_exactly_one_executes(
    perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path
) -> None:
    path = hello("echo run >> count; if [ ! -f gate ]; then touch gate; sleep 60; fi; sleep 1")
    process = started(perdure, path)
    until((tmp_path / "gate").exists)
    process.kill()
    process.wait()

    command = [sys.executable, "-m", "perdure.cli.entry", "resume", "hello"]
    pipe = subprocess.PIPE
    resuming = [
        subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
        for _ in range(10)
    ]
    ended = [Ran(p.wait(45), *p.communicate()) for p in resuming]

    first = [ran for ran in ended if ran.code == 0 and "goes on" in ran.err]
    assert len(first) == 1
    for ran in ended:
        if ran is not first[0]:
            # The others were told who has it, or came when it was over.
            assert ran.code in (0, 5)
            assert ran.code == 0 or "pid" in ran.err
    assert (tmp_path / "count").read_text().split() == ["run", "run"]


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_work_and_leaves_a_run_that_goes_on(
    perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path, number: signal.Signals
) -> None:
    path = hello("echo $$ > pid; if [ ! -f gate ]; then touch gate; sleep 60; fi")
    process = started(perdure, path)
    until((tmp_path / "gate").exists)
    process.send_signal(number)
    assert process.wait(20) == 130

    assert only_run(perdure)["status"] == "paused"
    assert is_gone(tmp_path / "pid")
    perdure("resume", "hello").succeeded()


@pytest.mark.crash
def test_a_detached_run_survives_its_shell_and_waits_in_place(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    run_id = perdure("run", "-d", path).succeeded().out.strip()
    until(lambda: only_run(perdure)["status"] == "waiting")

    assert "goes on" in perdure("answer", run_id, "Y").succeeded().out
    perdure("wait", run_id, "--timeout", "20").succeeded()
    assert (tmp_path / "count").read_text().split() == ["before", "after"]


def test_a_made_run_is_started_once(perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path) -> None:
    run_id = perdure("create", hello("echo x >> count")).succeeded().out.strip()
    assert only_run(perdure)["status"] == "submitted"
    assert Path(str(only_run(perdure)["run_dir"]), "run.json").exists()
    perdure("start", run_id).succeeded()
    perdure("wait", run_id, "--timeout", "20").succeeded()

    assert perdure("start", run_id).code == 2
    assert (tmp_path / "count").read_text().split() == ["x"]


@pytest.mark.crash
def test_a_cancel_returns_when_the_work_is_gone(perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path) -> None:
    path = hello("echo $$ > pid; touch gate; trap '' TERM; sleep 60")
    process = started(perdure, path)
    until((tmp_path / "gate").exists)
    perdure("cancel", "hello").succeeded()

    assert only_run(perdure)["status"] == "cancelled"
    assert is_gone(tmp_path / "pid")
    assert process.wait(20) == 2
    assert perdure("cancel", "hello").code == 2


@pytest.mark.crash
def test_a_cancel_settles_a_run_whose_owner_is_gone_and_ends_what_it_left(
    perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path
) -> None:
    path = hello("echo $$ > pid; touch gate; sleep 60")
    process = started(perdure, path)
    until((tmp_path / "gate").exists)
    process.kill()
    process.wait()
    perdure("cancel", "hello").succeeded()

    assert only_run(perdure)["status"] == "cancelled"
    assert is_gone(tmp_path / "pid")
    conclusion = Path(str(only_run(perdure)["run_dir"]), "conclusion.json")
    assert json.loads(conclusion.read_text())["status"] == "cancelled"


def test_wait_stops_waiting_with_three(perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path) -> None:
    run_id = perdure("run", "-d", hello("sleep 60")).succeeded().out.strip()
    assert perdure("wait", run_id, "--timeout", "0.2").code == 3
    perdure("cancel", run_id).succeeded()


def test_an_edited_graph_is_refused_until_a_person_chooses(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    assert perdure("run", path).code == 4
    path.write_text("// a comment changes nothing\n" + GATED)
    assert perdure("resume", "gated").code == 4
    path.write_text(GATED.replace("echo after", "echo changed"))
    ran = perdure("resume", "gated")
    assert ran.code == 2
    assert "node after: script" in ran.err

    perdure("answer", "gated", "Y").succeeded()
    perdure("resume", "gated", "--accept-changes").succeeded()
    assert (tmp_path / "count").read_text().split() == ["before", "changed"]


def test_looking_changes_nothing(
    perdure: Perdure, hello: Callable[[str], Path], state_home: Path, tmp_path: Path
) -> None:
    for arguments in (["ps", "-a"], ["doctor"], ["questions"], ["--help"], ["validate", str(hello("true"))]):
        perdure(*arguments)
    assert not state_home.exists()
    perdure("run", hello("true")).succeeded()
    before = _snapshot(state_home)
    for arguments in (
        ["ps", "-a"],
        ["show", "hello"],
        ["logs", "hello"],
        ["inspect", "hello"],
        ["doctor"],
        ["questions"],
    ):
        perdure(*arguments).succeeded()

    assert _snapshot(state_home) == before


def _snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file but the database's shared memory, which its readers use to tell each other what they read."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


def test_a_lost_database_is_made_again_from_the_run_directories(
    perdure: Perdure, tmp_path: Path, state_home: Path
) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    assert perdure("run", path).code == 4
    before = only_run(perdure)
    for name in ("state.sqlite", "state.sqlite-wal", "state.sqlite-shm"):
        (state_home / name).unlink(missing_ok=True)
    assert perdure("ps", "-a", "--json").json == []
    perdure("rebuild", "--store").succeeded()

    assert only_run(perdure) == before
    perdure("answer", "gated", "Y").succeeded()
    perdure("resume", "gated").succeeded()
    assert (tmp_path / "count").read_text().split() == ["before", "after"]


def test_a_lost_run_directory_is_made_again_from_the_log(perdure: Perdure, hello: Callable[[str], Path]) -> None:
    perdure("run", hello("echo out; echo err >&2")).succeeded()
    run_dir = Path(str(only_run(perdure)["run_dir"]))
    names = (
        "run.json",
        "start.json",
        "conclusion.json",
        "checkpoint.json",
        "progress.jsonl",
        "retro.json",
        "workflow.fabro",
    )
    nodes = ("nodes/hi/stdout.log", "nodes/hi/stderr.log", "nodes/hi/status.json", "nodes/hi/script_timing.json")
    before = {name: (run_dir / name).read_bytes() for name in (*names, *nodes)}
    subprocess.run(["rm", "-rf", str(run_dir)], check=True)
    perdure("rebuild", "hello").succeeded()

    assert {name: (run_dir / name).read_bytes() for name in before} == before


def test_rewind_and_fork_begin_at_a_checkpoint_and_leave_the_source_alone(
    perdure: Perdure, tmp_path: Path, repository: Path
) -> None:
    path = tmp_path / "steps.fabro"
    path.write_text(
        "digraph steps { start [shape=Mdiamond] exit [shape=Msquare] "
        'one [shape=parallelogram, script="echo one >> log"] two [shape=parallelogram, script="echo two >> log"] '
        "start -> one -> two -> exit }"
    )
    perdure("run", path, cwd=repository).succeeded()
    source = only_run(perdure)
    logged = perdure("logs", str(source["run_id"])).out
    stops = perdure("rewind", "steps", "--list", "--json").succeeded().json
    assert [stop["node_id"] for stop in stops] == ["start", "one", "two"]

    made = perdure("rewind", str(source["run_id"]), "one@1", "--json").succeeded().json
    assert perdure("logs", str(source["run_id"])).out == logged
    perdure("resume", made["run_id"]).succeeded()
    branch = subprocess.run(
        ["git", "show", f"perdure/run/{made['run_id']}:log"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert branch.stdout.split() == ["one", "two"]
    shown = perdure("show", made["run_id"], "--json").json
    assert shown["status"] == "succeeded"
    assert perdure("fork", str(source["run_id"]), "nowhere").code == 4
    assert perdure("fork", str(source["run_id"]), "@2").code == 0


def test_the_persons_own_files_stay_as_they_are(perdure: Perdure, tmp_path: Path, repository: Path) -> None:
    path = tmp_path / "edit.fabro"
    path.write_text(HELLO % json.dumps("echo more >> README; rm -f gone; echo new > new"))
    perdure("run", path, cwd=repository).succeeded()

    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert status.stdout == ""
    assert "+more" in perdure("diff", "hello").succeeded().out
    run = only_run(perdure)
    assert not Path(str(run["run_dir"]), "worktree").exists()
    assert "+more" in Path(str(run["run_dir"]), "final.patch").read_text()


def test_state_inside_the_repository_is_refused_through_a_link_too(
    perdure: Perdure, tmp_path: Path, repository: Path
) -> None:
    path = tmp_path / "hello.fabro"
    path.write_text(HELLO % '"true"')
    link = tmp_path / "link"
    link.symlink_to(repository)
    for state in (repository / ".state", link / "state"):
        ran = perdure("--state-dir", state, "run", path, cwd=repository)
        assert ran.code == 2
        assert "inside the repository" in ran.err
        assert not state.exists()


def test_state_is_for_its_owner_only(perdure: Perdure, hello: Callable[[str], Path], state_home: Path) -> None:
    old = os.umask(0)
    try:
        perdure("run", hello("true")).succeeded()
    finally:
        os.umask(old)

    wide = [p for p in [state_home, *state_home.rglob("*")] if p.stat().st_mode & 0o077]
    assert wide == []


def test_a_secret_never_reaches_a_file(perdure: Perdure, hello: Callable[[str], Path], state_home: Path) -> None:
    secret = "hush-hush-0123456789"
    path = hello(
        "echo $MY_SECRET; printf hush-hush-; sleep 0.1; echo 0123456789; echo $MY_SECRET | base64; echo $MY_SECRET >&2; exit 1"
    )
    settings = path.parent / "workflow.toml"
    settings.write_text('version = 1\ngraph = "hello.fabro"\n[sandbox]\npass_env = ["MY_SECRET"]\n')
    perdure("run", path, "--goal", f"use {secret}", env={"MY_SECRET": secret})

    import base64

    forms = [secret.encode(), base64.b64encode(secret.encode())[:16]]
    for file in state_home.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(form in content for form in forms), file


def test_what_comes_from_outside_cannot_move_the_cursor(perdure: Perdure, hello: Callable[[str], Path]) -> None:
    perdure("run", hello("true"), "--goal", "nice\x1b]0;title\x07\x1b[2J\u202egoal").succeeded()
    for ran in (perdure("ps", "-a"), perdure("show", "hello")):
        assert "\x1b" not in ran.out
        assert "\u202e" not in ran.out


def test_removing_is_a_persons_word(perdure: Perdure, tmp_path: Path, hello: Callable[[str], Path]) -> None:
    perdure("run", hello("true")).succeeded()
    run_dir = Path(str(only_run(perdure)["run_dir"]))
    assert "0 runs" in perdure("prune").succeeded().out
    assert "Would remove 1" in perdure("prune", "--older-than", "0m").succeeded().out
    assert run_dir.exists()
    perdure("prune", "--older-than", "0m", "--yes").succeeded()

    assert not run_dir.exists()
    assert perdure("ps", "-a", "--json").json == []


def test_a_waiting_run_is_never_pruned(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    assert perdure("run", path).code == 4
    perdure("prune", "--older-than", "0m", "--yes").succeeded()

    assert only_run(perdure)["status"] == "waiting"
    assert perdure("rm", "gated").code == 2


def test_a_dry_run_starts_nothing(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "gated.fabro"
    path.write_text(GATED)
    perdure("run", path, "--dry-run").succeeded()

    assert not (tmp_path / "count").exists()
    assert only_run(perdure)["status"] == "succeeded"


def test_without_a_home_one_line_says_what_to_set(perdure: Perdure) -> None:
    ran = perdure("ps", env={"HOME": "/nowhere", "PERDURE_STATE_HOME": "", "XDG_STATE_HOME": ""})

    assert ran.code == 2
    assert "PERDURE_STATE_HOME" in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_an_export_holds_the_whole_run(perdure: Perdure, hello: Callable[[str], Path], tmp_path: Path) -> None:
    perdure("run", hello("head -c 100000 /dev/zero | tr '\\0' x")).succeeded()
    perdure("export", "hello", "-o", tmp_path / "out").succeeded()

    assert (tmp_path / "out/nodes/hi/stdout.log").stat().st_size == 100_000
    assert (tmp_path / "out/run.json").exists()
    assert perdure("export", "hello", "-o", tmp_path / "out").code == 2


def test_a_full_disk_stops_the_run_and_loses_nothing(perdure: Perdure, hello: Callable[[str], Path]) -> None:
    ran = perdure("run", hello("true"), env={"PERDURE_FAIL_WRITE": "12:ENOSPC"})
    assert ran.code == 2
    assert "space" in ran.err.lower()

    assert only_run(perdure)["status"] in ("interrupted", "paused")
    perdure("doctor")
    perdure("resume", "hello").succeeded()


def test_another_backend_can_answer_from_a_resumption_on(perdure: Perdure, tmp_path: Path) -> None:
    path = tmp_path / "two.fabro"
    path.write_text(
        "digraph two { start [shape=Mdiamond] exit [shape=Msquare] a [prompt=a] gate [shape=hexagon] b [prompt=b] "
        'start -> a -> gate; gate -> b [label="[Y] Yes"]; gate -> exit [label="[N] No"]; b -> exit }'
    )
    assert perdure("run", path, "--backend", "command", "--command", "echo first").code == 4
    perdure("answer", "two", "Y").succeeded()
    perdure("resume", "two", "--backend", "command", "--command", "echo second").succeeded()

    run_dir = Path(str(only_run(perdure)["run_dir"]))
    assert (run_dir / "nodes/a/response.md").read_text() == "first"
    assert (run_dir / "nodes/b/response.md").read_text() == "second"
