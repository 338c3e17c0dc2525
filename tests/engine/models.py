"""An agent that a model drives, with a provider that answers by a script."""

from typing import Any

import pytest

from perdure.testing.providers import Call, FakeProvider, Reply
from perdure.testing.providers.script import Script

from .conftest import Graphs

WORK = "work [prompt=work%s] start -> work -> exit"


class Agent:
    """One agent node of a graph, with a provider that answers it by a script."""

    def __init__(self, graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graphs = graphs
        self.provider: FakeProvider | None = None
        self._monkeypatch = monkeypatch

    def run(self, script: Script, attributes: str = "", *, backend: str = "openai-compatible", **options: Any) -> str:
        """The status of a run with one node."""
        return self.run_graph(script, WORK % attributes, backend=backend, **options)

    def run_graph(self, script: Script, body: str, *, backend: str = "openai-compatible", **options: Any) -> str:
        self.close()
        self.provider = FakeProvider(script).start()
        for name, value in self.provider.environ.items():
            self._monkeypatch.setenv(name, value)
        given = {"backend": backend, "model": "fake-model", "agents": {"permissions": "full"}} | options
        return self.graphs.run(body, **given).status

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What the model was asked."""
        assert self.provider is not None
        return [request.body for request in self.provider.requests]

    def said(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages of one request."""
        found: list[dict[str, Any]] = self.bodies[number]["messages"]
        return found

    def failure(self) -> dict[str, Any]:
        """Why the node failed."""
        failed = [event for event in self.graphs.events("step.failed") if event.step == "work"]
        found: dict[str, Any] = failed[-1].properties["failure"]  # type: ignore[assignment]
        return found

    def usage(self) -> dict[str, Any]:
        [ended] = [event for event in self.graphs.events("step.completed") if event.step == "work"]
        found: dict[str, Any] = ended.properties["result"]["usage"]  # type: ignore[index,call-overload,assignment]
        return found

    def close(self) -> None:
        if self.provider is not None:
            self.provider.close()


def looks(*paths: str) -> Reply:
    return Reply(text="Looking.", tool_calls=[Call("read", {"path": path}) for path in paths])
