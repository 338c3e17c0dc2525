"""The real Claude Code and Codex, with a model on loopback: they work, remember, and go on after `kill -9`."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.agents.backend import AgentContext, AgentRequest, AgentResult, BackendError, find_backend
from perdure.agents.programs.sessions import CONTINUE
from perdure.disk.process import started_at
from perdure.kernel.context import OperationContext

from . import programs
from .fakes import Call, Fail, FakeModel, Hang, Reply, Say


class Kind(NamedTuple):
    """A program: its backend, how it is set up, a reply that makes it write a file, and where it keeps its sessions."""

    backend: str
    set_up: Callable[[FakeModel, Path], tuple[str, dict[str, str]]]
    write: Callable[[Path, str], Call]
    sessions: str


KINDS = [
    pytest.param(
        Kind(
            "claude-code",
            programs.claude,
            lambda path, text: Call("Write", {"file_path": str(path), "content": text}),
            "claude/projects/*/*.jsonl",
        ),
        marks=pytest.mark.claude,
        id="claude-code",
    ),
    pytest.param(
        Kind(
            "codex",
            programs.codex,
            lambda path, text: Call("exec_command", {"cmd": f"printf %s {shlex.quote(text)} >> {path}"}),
            "codex/sessions/*/*/*/*.jsonl",
        ),
        marks=pytest.mark.codex,
        id="codex",
    ),
]
each_program = pytest.mark.parametrize("kind", KINDS)


class Op:
    """What a backend uses of an operation's context, when nobody died before."""

    def __init__(self) -> None:
        self.emitted: list[tuple[str, dict[str, Any]]] = []

    def emit(self, event: str, properties: dict[str, Any], *, again: bool = False) -> None:
        self.emitted.append((event, properties))

    def recorded(self, event: str) -> list[dict[str, Any]]:
        return []

    async def flush(self) -> None:
        """Nothing is put off."""


class Place:
    """A folder to work in, and the program set up beside it."""

    def __init__(self, kind: Kind, model: FakeModel, tmp_path: Path) -> None:
        self.kind = kind
        self.tmp_path = tmp_path
        self.work = tmp_path / "work"
        self.work.mkdir()
        self.command, self.env = kind.set_up(model, tmp_path)
        self.op = Op()

    def ask(self, prompt: str, **changes: Any) -> AgentResult:
        """One turn, without a run around it."""
        fields: dict[str, Any] = {
            "prompt": prompt, "node_id": "a", "run_id": "RUN", "visit": 1, "attempt": 1, "model": "", "provider": "",
            "reasoning_effort": "", "thread_id": "", "fidelity": "", "is_prompt_only": False, "cwd": str(self.work),
            "env": os.environ | self.env, "timeout_ms": 40_000, "max_tokens": None,
        }  # fmt: skip
        context = AgentContext(
            op=cast("OperationContext", self.op),
            scratch=str(self.tmp_path / "scratch"),
            new_filter=None,
            on_started=None,
            keep_text=lambda path: Path(path).read_text(errors="replace"),
        )
        backend = find_backend(self.kind.backend, shlex.split(self.command), None)
        return asyncio.run(backend.run(AgentRequest(**fields | changes), context))

    def has_written(self, text: str) -> bool:
        """Whether the program's files of its sessions hold the text."""
        return any(text in path.read_text(errors="replace") for path in self.tmp_path.glob(self.kind.sessions))


def said(turn: dict[str, Any]) -> str:
    """What a request says, in the order of the conversation."""
    return json.dumps(turn.get("messages") or turn["input"])


def permission(kind: Kind) -> str:
    """Codex confines commands by a program that is not allowed everywhere; nothing is to be tested of that here."""
    return "full" if kind.backend == "codex" else "read-write"


@each_program
def test_a_turn_uses_a_tool_and_answers(kind: Kind, tmp_path: Path) -> None:
    replies: list[Reply] = [kind.write(tmp_path / "work" / "made.txt", "made by a tool"), Say("It is made.")]
    with FakeModel(replies) as model:
        place = Place(kind, model, tmp_path)
        result = place.ask("Make made.txt.", permission=permission(kind))

    assert result.text == "It is made."
    assert (place.work / "made.txt").read_text() == "made by a tool"
    assert result.usage is not None
    assert (result.usage["input_tokens"], result.usage["output_tokens"]) == (101 + 102, 18)
    kinds = [properties["kind"] for event, properties in place.op.emitted if event == "agent.message"]
    assert [each for each in kinds if each != "warning"] == ["tool", "text"]


@each_program
def test_a_later_turn_sends_the_conversation_of_the_earlier_one(kind: Kind, tmp_path: Path) -> None:
    with FakeModel([Say("The word is heron."), Say("I said heron.")]) as model:
        place = Place(kind, model, tmp_path)
        first = place.ask("Think of a word.")
        second = place.ask("Which word was it?", conversation=first.conversation)

    sent = said(model.turns[1])
    assert [sent.count(each) for each in ("Think of a word.", "The word is heron.", "Which word was it?")] == [1, 1, 1]
    assert second.text == "I said heron."
    assert second.usage is not None
    assert second.usage["input_tokens"] == 102


@each_program
def test_a_session_that_it_does_not_know_begins_anew(kind: Kind, tmp_path: Path) -> None:
    strange = "01234567-89ab-4def-8123-456789abcdef"
    with FakeModel([Say("Anew.")]) as model:
        place = Place(kind, model, tmp_path)
        result = place.ask("Begin.", conversation={"session_id": strange})

    assert result.text == "Anew."
    assert [properties["session_id"] for event, properties in place.op.emitted if event == "agent.session.lost"] == [
        strange
    ]


@each_program
def test_a_provider_that_refuses_is_a_failure_with_its_words(kind: Kind, tmp_path: Path) -> None:
    with FakeModel([Fail(400, "the heron is out of office")]) as model, pytest.raises(BackendError) as raised:
        Place(kind, model, tmp_path).ask("Begin.")

    assert "the heron is out of office" in raised.value.message


@each_program
def test_an_agent_that_may_only_read_changes_no_file(kind: Kind, tmp_path: Path) -> None:
    replies: list[Reply] = [kind.write(tmp_path / "work" / "made.txt", "made"), Say("Refused.")]
    with FakeModel(replies) as model:
        place = Place(kind, model, tmp_path)
        result = place.ask("Make made.txt.", permission="read-only")

    assert result.text == "Refused."
    assert not (place.work / "made.txt").exists()


@each_program
@pytest.mark.parametrize("place_of_work", ["folder", "worktree"])
def test_a_run_that_was_killed_goes_on_inside_the_agents_conversation(
    kind: Kind, place_of_work: str, tmp_path: Path, perdure: Perdure
) -> None:
    """No turn that was finished is paid for twice: the model is asked three times in all, and the file is written once and still there."""
    made = Path("made.txt")
    replies: list[Reply] = [kind.write(made, "made"), Hang(), Say("All of it is done.")]
    with FakeModel(replies) as model:
        place = Place(kind, model, tmp_path)
        _write_workflow(place)
        if place_of_work == "worktree":
            _commit(place.work)
        owner = subprocess.Popen(
            [sys.executable, "-m", "perdure.cli.entry", "run", "w.toml"],
            cwd=place.work,
            env=os.environ | place.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert model.hanging.wait(30)
        _until(lambda: place.has_written('"toolu_1"' if kind.backend == "claude-code" else "call_1"))
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        perdure("resume", "w", cwd=place.work, env=place.env).succeeded()

        first, _second, third = [said(turn) for turn in model.turns]

    assert "Make made.txt, then say so." in first
    assert [third.count(each) for each in ("Make made.txt, then say so.", CONTINUE)] == [1, 1]
    assert ("toolu_1" if kind.backend == "claude-code" else "call_1") in third
    if place_of_work == "worktree":
        assert (
            _git(place.work, "show", f"{_git(place.work, 'branch', '--list', 'perdure/run/*').split()[-1]}:made.txt")
            == "made"
        )
    else:
        assert (place.work / made).read_text() == "made"
    events = _events(tmp_path)
    opened = [each["properties"] for each in events if each["event"] == "agent.session.opened"]
    assert [each["way"] for each in opened] == ["new", "recovered"]
    assert len({each["session_id"] for each in opened}) == 1
    groups = [each["properties"]["process_group"] for each in events if each["event"] == "agent.cli.started"]
    assert [started_at(group["leader"]["pid"]) for group in groups] == [None, None]


def _write_workflow(place: Place) -> None:
    node = f'a [prompt="Make made.txt, then say so.", permission="{permission(place.kind)}"]'
    graph = f"digraph w {{ start [shape=Mdiamond] exit [shape=Msquare] {node} start -> a -> exit }}"
    (place.work / "w.fabro").write_text(graph)
    (place.work / "w.toml").write_text(
        f'version = 1\ngraph = "w.fabro"\n[backend]\nname = "{place.kind.backend}"\n'
        f'command = {json.dumps(place.command)}\n[sandbox]\npass_env = ["ANTHROPIC_API_KEY"]\n'
    )


def _commit(folder: Path) -> None:
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        _git(folder, *arguments)


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def _events(tmp_path: Path) -> list[dict[str, Any]]:
    [log] = (tmp_path / "state" / "runs").glob("*/progress.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def _until(is_so: Callable[[], bool]) -> None:
    """Wait for what another program writes when it likes; nothing tells of it."""
    deadline = time.monotonic() + 15
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
