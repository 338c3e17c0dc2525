"""A conversation's tools on a real folder, called as a model calls them."""

import asyncio
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.tools.files import EDIT, READ, WRITE
from perdure.agents.tools.shell import READ_OUTPUT, SHELL
from perdure.agents.tools.tool import Invocation, Tool, Toolbox, ToolContext, ToolOutcome, remember
from perdure.sandbox.groups import Group


class Desk:
    """A folder, a context, and calls whose results are remembered as the loop does it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        scratch = folder / "scratch"
        scratch.mkdir()
        self.scratch = scratch
        self.context = ToolContext(str(self.root), str(self.root), dict(os.environ), str(scratch))
        self.toolbox = Toolbox([READ, WRITE, EDIT, SHELL, READ_OUTPUT])
        self.groups: list[Group] = []
        self.calls = 0
        self.begun = 0

    def use(self, tools: Iterable[Tool]) -> None:
        self.toolbox = Toolbox(tools)

    def raw(self, name: str, arguments: str, *, interrupted: bool = False) -> ToolOutcome:
        self.calls += 1
        return asyncio.run(self.acall(name, arguments, f"call-{self.calls}", interrupted))

    async def acall(self, name: str, arguments: str, call_id: str, interrupted: bool = False) -> ToolOutcome:
        async def started(group: Group) -> None:
            self.groups.append(group)

        def keep(path: str) -> Any:
            text = Path(path).read_text(errors="replace")
            Path(path).unlink()
            return {"$blob": text}

        async def begin() -> None:
            self.begun += 1

        def read(kept: Any) -> str:
            return str(kept["$blob"])

        call = Invocation(self.context, call_id, call_id, keep, read, started, begin, interrupted)
        outcome = await self.toolbox.run(name, arguments, call)
        remember(
            self.context,
            call_id,
            {"saw": [{"path": each.path, "digest": each.digest} for each in outcome.saw], "blob": outcome.full_text},
        )
        return outcome

    def call(self, name: str, /, *, interrupted: bool = False, **arguments: Any) -> ToolOutcome:
        return self.raw(name, json.dumps(arguments), interrupted=interrupted)

    def ok(self, name: str, /, **arguments: Any) -> str:
        outcome = self.call(name, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.text

    def fault(self, name: str, /, **arguments: Any) -> str:
        outcome = self.call(name, **arguments)
        assert outcome.is_error, outcome.text
        return outcome.text


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
