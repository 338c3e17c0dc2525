"""Runs one workflow again and again, killed after each of its durable writes in turn, and says what became of it.

A program of its own: everything is imported once, then each run and each resumption is a forked process that really dies.

    python sweeping.py FOLDER FIRST STEP [--git]      prints one JSON object a line
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

# What is imported late is imported now, so that a forked process starts at once.
import perdure.agents.command
import perdure.graph.interpreter
import perdure.graph.node
import perdure.service.asking
import perdure.service.showing
import perdure.service.workflows  # noqa: F401
from perdure.base import failpoint
from perdure.cli.main import run as command_line

HERE = Path(__file__).parent


def forked(arguments: list[str], crash_after: int = 0, log: str | None = None) -> int:
    """Run one command line in a process of its own; its exit code, negative for a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        devnull = os.open(os.devnull, os.O_RDWR)
        out = os.open("out.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(devnull, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        failpoint.arm(crash_after=crash_after, log=log)
        _leave(arguments)
    _pid, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _leave(arguments: list[str]) -> None:
    """The forked process ends here, whatever happens."""
    code = 99
    try:
        code = command_line(arguments)
        sys.stdout.flush()
    finally:
        os._exit(code)


def prepare(folder: Path, *, git: bool) -> None:
    """A fresh copy of the workflow, its program and its little repository."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "workflow", folder / "project")
    os.chdir(folder)
    os.environ["PERDURE_STATE_HOME"] = str(folder / "state")
    os.environ["PERDURE_DURABILITY"] = "normal"
    os.environ["SWEEP_COUNTER"] = str(folder / "counter")
    if git:
        for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "begin"]):
            subprocess.run(["git", *command], cwd=folder / "project", check=True)


def to_the_end(first: int) -> tuple[int, int]:
    """Resume and answer until the run is settled; the last exit code and how many resumptions it took."""
    code, resumptions = first, 0
    while code not in (0, 1, 2) and resumptions < 12:
        runs = json.loads(captured(["ps", "-a", "--json"]))
        tops = [run for run in runs if run["parent_run_id"] is None]
        if not tops:
            code = forked(run_line())
            continue
        run_id = tops[0]["run_id"]
        if tops[0]["status"] in ("succeeded", "failed", "cancelled"):
            # The owner died after its last commit: the log is whole, the files may be behind.
            forked(["rebuild", run_id])
            return 0 if tops[0]["status"] == "succeeded" else 1, resumptions
        forked(["answer", run_id, "Y"])
        code = forked(["resume", run_id])
        resumptions += 1
    return code, resumptions


def answered_then_resumed(crash_after: int = 0, log: str | None = None) -> int:
    """Run to the gate, answer it, and go on: what is killed is the second half."""
    forked(run_line())
    [top] = [run for run in json.loads(captured(["ps", "-a", "--json"])) if run["parent_run_id"] is None]
    forked(["answer", top["run_id"], "Y"])
    return forked(["resume", top["run_id"]], crash_after=crash_after, log=log)


def late_labels(folder: Path, log: str, *, git: bool) -> list[str]:
    """The durable writes of the second half."""
    prepare(folder, git=git)
    Path(log).unlink()
    answered_then_resumed(log=log)
    return Path(log).read_text().splitlines()


def captured(arguments: list[str]) -> str:
    """What a command prints."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.close(read)
        _leave(arguments)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


def run_line() -> list[str]:
    return ["run", "project/workflow.fabro", "--goal", "sweep", "--no-retro"]


def observed(folder: Path, *, git: bool) -> dict[str, object]:
    """What must be the same however often the run was killed."""
    runs = json.loads(captured(["ps", "-a", "--json"]))
    top = next((run for run in runs if run["parent_run_id"] is None), None)
    if top is None:
        return {"runs": 0}
    run_dir = Path(top["run_dir"])
    checkpoint = json.loads((run_dir / "checkpoint.json").read_text())
    context = {k: v for k, v in checkpoint["context_values"].items() if not k.startswith(("internal.", "thread."))}
    seen: dict[str, object] = {
        "runs": len(runs),
        "status": top["status"],
        "completed": checkpoint["completed_nodes"],
        "visits": checkpoint["node_visits"],
        "context": {
            key: value for key, value in sorted(context.items()) if "head_sha" not in key and key != "parallel.results"
        },
        "conclusion": json.loads((run_dir / "conclusion.json").read_text())["status"],
        "nodes": sorted(p.relative_to(run_dir).as_posix() for p in (run_dir / "nodes").rglob("*") if p.is_file()),
        "child": json.loads((run_dir / "nodes/child/child/conclusion.json").read_text())["status"],
        "progress": _dense(run_dir / "progress.jsonl"),
        "questions": json.loads(captured(["questions", "--json"])),
    }
    if git:
        log = subprocess.run(
            ["git", "log", "--format=%s", "--topo-order", f"perdure/run/{top['run_id']}"],
            cwd=folder / "project",
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        seen["commits"] = [line.partition(": ")[2] for line in log.splitlines()]
        seen["worktree"] = (run_dir / "worktree").exists()
        patch = (run_dir / "final.patch").read_text()
        seen["patch"] = sorted(
            line for line in patch.splitlines() if line.startswith(("+", "-")) and "index" not in line
        )
    return seen


def _dense(path: Path) -> bool:
    """Whether the log in the run directory is whole: numbered from 1 without a gap."""
    numbers = [json.loads(line)["seq"] for line in path.read_text().splitlines()]
    return numbers == list(range(1, len(numbers) + 1))


def effects(folder: Path) -> dict[str, int]:
    """How often each node really did something outside."""
    path = folder / "counter"
    counts: dict[str, int] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        counts[line] = counts.get(line, 0) + 1
    return counts


def main() -> None:
    folder, first, step = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    git = "--git" in sys.argv
    prepare(folder, git=git)
    log = str(folder.parent / f"{folder.name}.log")
    Path(log).unlink(missing_ok=True)
    code, _ = to_the_end(forked(run_line(), log=log))
    labels = Path(log).read_text().splitlines()
    print(
        json.dumps(
            {"k": 0, "code": code, "seen": observed(folder, git=git), "effects": effects(folder), "writes": len(labels)}
        )
    )
    late = "--late" in sys.argv
    if late:
        labels = late_labels(folder, log, git=git)
    for k in range(first, len(labels) + 1, step):
        prepare(folder, git=git)
        died = answered_then_resumed(crash_after=k) if late else forked(run_line(), crash_after=k)
        code, resumptions = to_the_end(died)
        result = {
            "k": k,
            "label": labels[k - 1],
            "died": died == -signal.SIGKILL,
            "code": code,
            "resumptions": resumptions,
            "seen": observed(folder, git=git),
            "effects": effects(folder),
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
