"""An agent that a model drives, as whole processes: what a kill in the middle of its work costs."""

import json
import subprocess
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.testing.providers import Call, FakeProvider, Reply

from .workflows import only_run, started

BOOK = """digraph book {
  start [shape=Mdiamond]; exit [shape=Msquare]
  work [prompt="Write the twelve chapters.", permission="full"]
  start -> work -> exit
}"""
CHAPTERS = 12
KILLED_AT = 10


def _script(count: Path) -> list[Reply]:
    """Twelve turns that each write a file of the project and leave a mark outside of it; the tenth says nothing at first."""
    replies = [
        Reply(
            text=f"Chapter {number}.",
            tool_calls=[
                Call("write", {"path": f"chapter-{number}.txt", "content": f"chapter {number}\n"}),
                Call("shell", {"command": f"echo {number} >> {count}"}),
            ],
            fault="hang" if number == KILLED_AT else "",
            fault_times=1,
        )
        for number in range(1, CHAPTERS + 1)
    ]
    return [*replies, Reply(text="The book is written.")]


def _project(folder: Path, settings: str = "") -> Path:
    """A repository with one commit and the workflow in it."""
    folder.mkdir()
    (folder / "book.fabro").write_text(BOOK)
    (folder / ".perdure").mkdir()
    (folder / ".perdure" / "settings.toml").write_text(settings)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "A book to be written"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def _files_of(project: Path, run_id: object) -> set[str]:
    """What the run's branch holds."""
    command = ["git", "ls-tree", "--name-only", f"perdure/run/{run_id}"]
    return set(subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.crash
@pytest.mark.parametrize(
    ("backend", "sessions"),
    [("openai", True), ("anthropic", True), ("openai-compatible", True), ("openai-compatible", False)],
)
def test_a_kill_in_the_tenth_turn_repeats_no_turn_and_no_call(
    perdure: Perdure, state_home: Path, tmp_path: Path, backend: str, sessions: bool
) -> None:
    count = tmp_path / "count"
    project = _project(tmp_path / "project", f"[agents]\nsessions = {str(sessions).lower()}\n")
    with FakeProvider(_script(count), pick="turn") as provider:
        words = ("--backend", backend, "--model", "fake-model")
        process = started(perdure, project / "book.fabro", *words, env=provider.environ)
        provider.wait(lambda requests: len(requests) == KILLED_AT and requests[-1].sent_events > 0)
        process.kill()
        process.wait()

        assert only_run(perdure)["status"] == "interrupted"
        resumed = perdure("resume", "book", env=provider.environ, cwd=project).succeeded()

        assert provider.answered_twice() == []
        assert len(provider.requests) == CHAPTERS + 2
    assert "kept as commit" not in resumed.err, "its files were never in danger"
    assert count.read_text().split() == [str(number) for number in range(1, CHAPTERS + 1)]
    chapters = {f"chapter-{number}.txt" for number in range(1, CHAPTERS + 1)}
    assert _files_of(project, only_run(perdure)["run_id"]) == {".perdure", "book.fabro", *chapters}
    assert len(list(state_home.glob("agent-sessions/*.jsonl"))) == sessions


ONE_WORD = 'digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; say [shape=box, type=prompt, prompt="Say %s."]; start -> say -> exit }'


def _say(perdure: Perdure, folder: Path, *words: str) -> None:
    """A run for each word, with a model that says it."""
    with FakeProvider([Reply(text=word) for word in words]) as provider:
        for word in words:
            (folder / f"{word}.fabro").write_text(ONE_WORD % word)
            perdure(
                "run",
                f"{word}.fabro",
                "--backend",
                "openai-compatible",
                "--model",
                "fake-model",
                env=provider.environ,
                cwd=folder,
            ).succeeded()


def _limit(state_home: Path, **sessions: object) -> None:
    state_home.mkdir(mode=0o700, exist_ok=True)
    (state_home / "limits.json").write_text(json.dumps({"agentSessions": sessions}))


def test_no_conversation_is_saved_where_the_machine_says_so(perdure: Perdure, state_home: Path, tmp_path: Path) -> None:
    _limit(state_home, enabled=False)
    _say(perdure, tmp_path, "yes")

    assert not (state_home / "agent-sessions").exists()


def test_when_a_run_ends_the_oldest_conversations_go_until_the_rest_fits(
    perdure: Perdure, state_home: Path, tmp_path: Path
) -> None:
    _say(perdure, tmp_path, "one")
    [oldest] = (state_home / "agent-sessions").glob("*.jsonl")
    size = oldest.stat().st_size
    _limit(state_home, maxBytes=size + 10, targetBytes=size + 9)
    _say(perdure, tmp_path, "two")

    [left] = (state_home / "agent-sessions").glob("*.jsonl")
    assert left != oldest


def test_prune_refuses_limits_that_it_does_not_understand(perdure: Perdure, state_home: Path) -> None:
    _limit(state_home, maxBytes=5, targetBytes=5)

    assert perdure("prune").code == 2
