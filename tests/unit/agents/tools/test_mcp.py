"""Servers of tools: real ones, made with the official SDK; asked once, ended with their agent, never left behind."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.tools.mcp import McpServer, McpServers, tool_name
from perdure.agents.tools.tool import ToolOutcome
from perdure.disk import process

from .conftest import Desk

SERVER = """
import os, subprocess, sys
from mcp.server import MCPServer
open("pids", "a").write(f"{os.getpid()}\\n")
if "--child" in sys.argv:
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    open("pids", "a").write(f"{child.pid}\\n")
server = MCPServer("notes")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool()
def fail() -> str:
    raise ValueError("no such note")

@server.tool()
def die() -> str:
    os._exit(3)

@server.tool()
def much() -> str:
    return "x" * 40_000

server.run("stdio")
"""


class FakeScope:
    """A scope whose steps run at once and are remembered, as those of a run are."""

    run_id = "RUN"
    path = "agent"

    def __init__(self) -> None:
        self.step_id = "agent/mcp-tools"
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.results: dict[str, Any] = {}

    def recorded(self, event: str) -> list[dict[str, Any]]:
        return [properties for name, properties in self.events if name == event]

    def emit(self, event: str, properties: dict[str, Any], *, again: bool = False) -> None:
        self.events.append((event, properties))

    async def flush(self) -> None:
        return None

    async def step(self, name: str, operation: str, input: Any) -> Any:
        from perdure.kernel.operation import find_operation

        if name not in self.results:
            self.results[name] = await find_operation(operation).function(self, input)
        return self.results[name]


class Bench:
    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk = desk
        self.scope = FakeScope()
        self.script = folder / "server.py"
        self.script.write_text(SERVER)

    def server(self, *more: str) -> McpServer:
        return McpServer(command=sys.executable, args=[str(self.script), *more], permission="read")

    def use(self, servers: dict[str, McpServer], act: Callable[[McpServers], Any]) -> Any:
        async def go() -> Any:
            cwd, scratch = str(self.desk.root), str(self.desk.scratch)
            async with McpServers(self.scope, servers, scratch, cwd) as opened:  # type: ignore[arg-type]
                return await act(opened)

        return asyncio.run(go())

    async def call(self, opened: McpServers, name: str, arguments: str = "{}") -> ToolOutcome:
        self.desk.use(await opened.tools())
        return await self.desk.acall(name, arguments, "c")

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.desk.root / "pids").read_text().split()]


@pytest.fixture
def bench(desk: Desk, tmp_path: Path) -> Bench:
    return Bench(desk, tmp_path)


def test_a_tool_of_a_server_is_called_and_the_server_ends_with_its_agent(bench: Bench) -> None:
    async def act(opened: McpServers) -> ToolOutcome:
        [tool, *_] = await opened.tools()
        assert (tool.name, tool.description, tool.permission) == ("notes__add", "Add two numbers.", "read")
        assert tool.parameters["required"] == ["a", "b"]
        return await bench.call(opened, "notes__add", '{"a": 2, "b": 3}')

    assert bench.use({"notes": bench.server("--child")}, act) == ToolOutcome("5")
    assert bench.desk.begun == 1
    assert len(bench.pids()) == 2
    assert all(process.started_at(pid) is None for pid in bench.pids())
    assert list(bench.desk.scratch.iterdir()) == []


def test_recorded_tools_need_no_server_until_one_is_called(bench: Bench) -> None:
    async def act(opened: McpServers) -> list[str]:
        return [each.name for each in await opened.tools()]

    first = bench.use({"notes": bench.server()}, act)
    started = len(bench.pids())
    assert bench.use({"notes": bench.server()}, act) == first
    assert len(bench.pids()) == started


def test_what_a_server_says_is_wrong_is_a_result_for_the_model(bench: Bench) -> None:
    async def act(opened: McpServers) -> list[ToolOutcome]:
        calls = [("notes__fail", "{}"), ("notes__add", '{"a": "x"}'), ("notes__die", "{}"), ("notes__much", "{}")]
        return [await bench.call(opened, *each) for each in calls]

    failed, wrong, died, much = bench.use({"notes": bench.server()}, act)
    assert failed.is_error
    assert "tool fail" in failed.text
    assert wrong.is_error
    assert died.is_error
    assert "notes has gone" in died.text
    assert not much.is_error
    assert "left out" in much.text


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (McpServer(command="no-such-program"), "no program no-such-program"),
        (McpServer(command=sys.executable, args=["-c", "import sys; sys.exit('I cannot')"]), "I cannot"),
        (McpServer(command=sys.executable, args=["-c", "x"], env={"A": "${env.NOT_SET_HERE}"}), "NOT_SET_HERE"),
    ],
)
def test_a_server_that_does_not_start_is_told_of_and_the_others_work(bench: Bench, server: McpServer, why: str) -> None:
    async def act(opened: McpServers) -> list[str]:
        return [each.server for each in await opened.tools()]

    assert set(bench.use({"bad": server, "notes": bench.server()}, act)) == {"notes"}
    [notice] = bench.scope.recorded("run.notice")
    assert notice["code"] == "mcp_failed"
    assert why in notice["message"]


def test_a_server_of_a_killed_owner_is_ended_by_the_next(bench: Bench, tmp_path: Path) -> None:
    code = f"""
import asyncio, json, sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from perdure.agents.tools.mcp import McpServer, McpServers
from unit.agents.tools.test_mcp import FakeScope

class Told(FakeScope):
    def emit(self, event, properties, *, again=False):
        print(json.dumps(properties), flush=True)

async def go():
    server = McpServer(command={sys.executable!r}, args=[{str(bench.script)!r}, "--child"])
    async with McpServers(Told(), {{"notes": server}}, {str(bench.desk.scratch)!r}, {str(bench.desk.root)!r}) as opened:
        await opened.tools()
        print("ready", flush=True)
        await asyncio.sleep(300)
asyncio.run(go())
"""
    import json

    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    bench.scope.events.append(("agent.mcp.started", json.loads(owner.stdout.readline())))
    assert owner.stdout.readline() == "ready\n"
    owner.kill()
    owner.communicate()

    async def act(opened: McpServers) -> None:
        return None

    bench.use({}, act)
    assert len(bench.pids()) == 2
    deadline = time.monotonic() + 10
    while any(process.started_at(pid) is not None for pid in bench.pids()):
        assert time.monotonic() < deadline


def test_a_server_that_listens_at_an_address_is_used_too(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    source = SERVER.replace('server.run("stdio")', f'server.run("streamable-http", host="127.0.0.1", port={port})')
    bench.script.write_text(source)
    running = subprocess.Popen([sys.executable, str(bench.script)], cwd=bench.desk.root, stderr=subprocess.DEVNULL)
    try:
        while running.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 0.1).close()
                break
            except OSError:
                time.sleep(0.02)

        async def act(opened: McpServers) -> ToolOutcome:
            return await bench.call(opened, "far__add", '{"a": 2, "b": 3}')

        server = McpServer(url=f"http://127.0.0.1:{port}/mcp", permission="network")
        assert bench.use({"far": server}, act) == ToolOutcome("5")
        assert bench.scope.recorded("agent.mcp.started") == []
    finally:
        running.kill()
        running.wait()


def test_a_name_is_one_that_every_provider_takes() -> None:
    assert tool_name("my server", "a/b") == "my_server__a_b"
    long = tool_name("s", "x" * 100)
    assert len(long) == 64
    assert long != tool_name("s", "x" * 101)
    assert os.path.basename(long) == long
