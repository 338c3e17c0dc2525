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
            op=cast("OperationContext", None),
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
