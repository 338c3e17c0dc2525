"""Graphs on the real engine, with the real store and views, and an agent that answers from a script."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.disk.blobs import Blobs
from perdure.graph.definition import GraphDefinition
from perdure.graph.files import DiskFiles
from perdure.graph.load import load_graph
from perdure.graph.options import Options
from perdure.kernel.capacity.limits import NO_LIMITS, Limits
from perdure.kernel.ending import RunResult
from perdure.kernel.engine import Engine
from perdure.kernel.events import Event, event_of
from perdure.kernel.question import Answer
from perdure.store.sqlite import SqliteStore
from perdure.views.run_directory import RunDirectory


class Graphs:
    """Runs graphs of a test. `answers` is the script of its agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.store = SqliteStore.open(str(folder / "state.sqlite"), durability="normal")
        self.blobs = Blobs(str(folder / "blobs"))
        self.answers: dict[str, Any] = {}
        self.engine = self.new_engine()
        self.run_id = ""

    def new_engine(self, limits: Limits = NO_LIMITS) -> Engine:
        return Engine(
            self.store,
            self.blobs,
            subscribers=lambda _run, run_dir: [RunDirectory(run_dir, self.blobs)],
            run_dir=lambda run_id, _now: str(self.folder / "runs" / run_id),
            park=True,
            seed=7,
            limits=limits,
        )

    def definition(self, body: str, *, ending: str = "fabro", **options: Any) -> GraphDefinition:
        script = self.folder / "answers.json"
        script.write_text(json.dumps({"answers": {"*": "done"} | self.answers}))
        source = f"digraph g {{ start [shape=Mdiamond] exit [shape=Msquare] {body} }}"
        path = str(self.folder / f"g.{ending}")
        files = DiskFiles()
        loaded = load_graph(source, path, files)
        assert loaded.graph is not None
        assert loaded.errors == [], [each.text() for each in loaded.errors]
        given = {"backend": "scripted", "script": str(script), "working_directory": str(self.work), "goal": "the goal"}
        return GraphDefinition(
            loaded.graph, source, path, loaded.dialect, files.read, msgspec.convert(given | options, Options)
        )

    def run(self, body: str, **options: Any) -> RunResult:
        self.run_id = self.engine.submit(self.definition(body, **options))
        return self.resume()

    def resume(self) -> RunResult:
        return asyncio.run(self.engine.execute(self.run_id))

    def answer(self, key: str) -> None:
        [question] = [each for each in self.store.open_questions() if each.answer is None]
        assert self.engine.answer(question.question_id, Answer("selected", [key]))

    def events(self, name: str | None = None) -> list[Event]:
        row = self.store.find_run(self.run_id)
        assert row is not None
        events = [event_of(self.run_id, each) for each in self.store.read_events(row.no)]
        return events if name is None else [event for event in events if event.event == name]

    def path(self) -> list[str]:
        """The nodes of the main line, in the order of their visits."""
        return [
            str(e.properties["node_id"]) for e in self.events("checkpoint.completed") if e.properties.get("completed")
        ]

    def context(self) -> dict[str, Any]:
        return dict(self.checkpoint()["context_values"])

    def checkpoint(self) -> dict[str, Any]:
        row = self.store.find_run(self.run_id)
        assert row is not None
        found: dict[str, Any] = json.loads(Path(row.run_dir, "checkpoint.json").read_text())
        return found

    def failure(self, result: RunResult) -> str:
        assert result.outcome is not None
        assert result.outcome.failure is not None
        return result.outcome.failure.message


@pytest.fixture
def graphs(tmp_path: Path) -> Iterator[Graphs]:
    made = Graphs(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def agent(graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One agent node of a graph, see `models.py`."""
    from .models import Agent

    made = Agent(graphs, monkeypatch)
    yield made
    made.close()
