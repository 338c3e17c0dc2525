"""A backend called as an agent node calls it, in a folder of the test."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from perdure.agents.backend import AgentContext, AgentRequest, AgentResult, Backend
from perdure.base.masking import Masker
from perdure.kernel.context import OperationContext
from perdure.sandbox.groups import Group


class Recorder:
    """The part of an operation's context that a program's backend uses: what is emitted now, and what earlier owners recorded."""

    def __init__(self) -> None:
        self.emitted: list[tuple[str, dict[str, Any]]] = []
        self.earlier: list[tuple[str, dict[str, Any]]] = []

    def emit(self, event: str, properties: dict[str, Any], *, again: bool = False) -> None:
        assert again
        self.emitted.append((event, properties))

    def recorded(self, event: str) -> list[dict[str, Any]]:
        return [properties for name, properties in self.earlier if name == event]

    async def flush(self) -> None:
        """Nothing is put off."""

    def of(self, event: str) -> list[dict[str, Any]]:
        return [properties for name, properties in self.emitted if name == event]

    def owner_dies(self) -> None:
        """What was emitted is what an earlier owner recorded."""
        self.earlier += self.emitted
        self.emitted = []


class Turns:
    """Asks a backend; remembers the process groups that it told of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.started: list[Group] = []
        self.secrets: list[str] = []
        self.op = Recorder()

    def request(self, **changes: Any) -> AgentRequest:
        request = AgentRequest(
            prompt="Mend it.",
            node_id="fix",
            run_id="RUN",
            visit=1,
            attempt=1,
            model="",
            provider="",
            reasoning_effort="",
            thread_id="",
            fidelity="compact",
            is_prompt_only=False,
            cwd=str(self.work),
            env=dict(os.environ),
            timeout_ms=None,
            max_tokens=None,
        )
        return msgspec.structs.replace(request, **changes)

    def context(self) -> AgentContext:
        async def on_started(group: Group) -> None:
            self.started.append(group)

        mask = Masker(self.secrets)
        return AgentContext(
            op=cast("OperationContext", self.op),
            scratch=str(self.scratch / "fix.1"),
            new_filter=mask.stream,
            on_started=on_started,
            keep_text=lambda path: Path(path).read_text(errors="replace"),
        )

    def ask(self, backend: Backend, **changes: Any) -> AgentResult:
        return asyncio.run(backend.run(self.request(**changes), self.context()))


@pytest.fixture
def turns(tmp_path: Path) -> Turns:
    return Turns(tmp_path)


Program = Callable[[str], list[str]]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A Python program with this source, as the words of a command."""
    import sys

    def make(source: str) -> list[str]:
        path = tmp_path / "agent.py"
        path.write_text(source)
        return [sys.executable, str(path)]

    return make
