"""Runs a graph whose agent is a model, killed after each of its durable writes in turn, and says what became of it.

A program of its own, like `sweeping.py`. The provider is another process; its address comes in the environment.

    python model_sweeping.py FOLDER FIRST STEP      prints one JSON object a line
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# What is imported late is imported now, so that a forked process starts at once.
import httpx2  # noqa: F401
from sweeping import captured, forked  # type: ignore[import-not-found]

import perdure.agents.loop.backend
import perdure.llm.openai_chat
import perdure.service.showing
import perdure.service.workflows  # noqa: F401

GRAPH = """digraph agent {
  start [shape=Mdiamond]; exit [shape=Msquare]
  work [prompt="Do the work.", permission="full"]
  check [shape=parallelogram, script="cat made.txt"]
  start -> work -> check -> exit
}"""
RUN = ["run", "agent.fabro", "--backend", "openai-compatible", "--model", "fake-model", "--no-retro"]


def prepare(folder: Path) -> None:
    """A repository with the graph in it, and a state of its own."""
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "agent.fabro").write_text(GRAPH)
    (project / "notes.txt").write_text("old\n")
    (project / ".gitignore").write_text("out.txt\n")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "begin"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    os.chdir(project)
    os.environ["PERDURE_STATE_HOME"] = str(folder / "state")
    os.environ["PERDURE_DURABILITY"] = "normal"


def to_the_end(code: int) -> int:
    """Resume until the run is settled; the last exit code."""
    for _ in range(4):
        if code in (0, 1, 2):
            break
        runs = json.loads(captured(["ps", "-a", "--json"]))
        if not runs:
            code = forked(RUN)
        elif runs[0]["status"] in ("succeeded", "failed"):
            # The owner died after its last commit: the log is whole, the files may be behind.
            forked(["rebuild", runs[0]["run_id"]])
            return 0 if runs[0]["status"] == "succeeded" else 1
        else:
            code = forked(["resume", runs[0]["run_id"]])
    return code


def observed(project: Path) -> dict[str, object]:
    """What must be the same however the run was killed."""
    [run] = json.loads(captured(["ps", "-a", "--json"]))
    branch = f"perdure/run/{run['run_id']}"

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=True).stdout

    [session] = Path(os.environ["PERDURE_STATE_HOME"], "agent-sessions").glob("*.jsonl")
    events = [json.loads(line) for line in session.read_text().splitlines()]
    return {
        "status": run["status"],
        "files": {name: git("show", f"{branch}:{name}") for name in git("ls-tree", "--name-only", branch).split()},
        "commits": [line.partition(": ")[2] for line in git("log", "--format=%s", branch).splitlines()],
        "first": [each["message"]["role"] for each in events if each["kind"] == "message"][:3],
        "ends": [each.get("result") for each in events if each["kind"] == "end"],
        "turns_twice": _twice(events),
    }


def _twice(events: list[dict[str, object]]) -> list[object]:
    """Turns whose answer stands in the session file more than once."""
    turns = [e["turn"] for e in events if e["kind"] == "message" and e["message"]["role"] == "assistant"]  # type: ignore[index]
    return sorted({turn for turn in turns if turns.count(turn) > 1})  # type: ignore[type-var]


def main() -> None:
    folder, first, step = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    log = folder / "writes.log"
    prepare(folder / "0")
    code = to_the_end(forked(RUN, log=str(log)))
    print(json.dumps({"k": 0, "code": code, "seen": observed(folder / "0" / "project")}), flush=True)
    labels = log.read_text().splitlines()
    for k in range(first, len(labels) + 1, step):
        prepare(folder / str(k))
        died = forked(RUN, crash_after=k)
        code = to_the_end(died)
        seen = observed(folder / str(k) / "project")
        print(json.dumps({"k": k, "label": labels[k - 1], "died": died == -signal.SIGKILL, "code": code, "seen": seen}))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
