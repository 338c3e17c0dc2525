"""Tools of other programs, by the Model Context Protocol: servers that this process starts, or that listen at an address.

Which tools a server has is asked once and recorded; a server is started at its first call, lives as long as its agent works, and
ends with it. Before one is started, the mark in its environment is recorded, by which the next owner of the run ends it should
this one be killed.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import msgspec

from perdure.agents.tools.output import outcome_of
from perdure.agents.tools.tool import Invocation, Permission, ToolFault, ToolOutcome
from perdure.base import ids
from perdure.base.errors import EnvironmentFault
from perdure.base.jsonvalue import JSON
from perdure.disk import process
from perdure.kernel.operation import operation
from perdure.sandbox.command import find_program, tail_text
from perdure.sandbox.groups import MARK, Group, end_leftovers

if TYPE_CHECKING:
    from perdure.kernel.context import OperationContext, RunContext

START_LIMIT_S = 30.0
CALL_LIMIT_S = 120.0
_MAX_NAME = 64
_PAGES = 100
# The code of the protocol for a server that is gone.
_CLOSED = -32000


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[mcp_servers.NAME]`: a program with its arguments and variables, or a URL. `permission` says what its tools do; without it
    each tool needs a grant."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    permission: Permission | None = None


class McpFailed(EnvironmentFault):
    """A server of tools cannot be started, or does not answer as it should."""

    code = "mcp_failed"


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of a server, as it was recorded; the server checks its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]
    permission: Permission | None
    server: str
    remote_name: str
    servers: McpServers
    is_repeatable: bool = False

    async def run(self, arguments: dict[str, Any], call: Invocation) -> ToolOutcome:
        # Before the call may have any effect: so a kill in it is told apart from one before it.
        if call.begin is not None:
            await call.begin()
        try:
            result = await self.servers.call(self.server, self.remote_name, arguments)
        except McpFailed as error:
            raise ToolFault(str(error)) from error
        return outcome_of(_text_of(result), call, is_error=bool(result.get("isError")))


class McpServers:
    """The servers of one agent. Use as `async with`, in the scope of the agent's step; leaving ends every server."""

    def __init__(self, scope: RunContext, servers: Mapping[str, McpServer], scratch: str, cwd: str) -> None:
        self._scope = scope
        self._servers = servers
        self._scratch = scratch
        self._cwd = cwd
        self._connections: dict[str, _Connection] = {}

    async def __aenter__(self) -> Self:
        """Ends what a dead owner left."""
        loop = asyncio.get_running_loop()
        for event in self._scope.recorded("agent.mcp.started"):
            group = msgspec.convert(event["process_group"], Group)
            await loop.run_in_executor(None, end_leftovers, group)
        _listing[f"{self._scope.run_id}:{self._scope.path}"] = self
        return self

    async def __aexit__(self, *_error: object) -> None:
        _listing.pop(f"{self._scope.run_id}:{self._scope.path}", None)
        for each in self._connections.values():
            await each.close()
        self._connections.clear()

    async def tools(self) -> list[McpTool]:
        """The tools of all servers, recorded. A server that cannot be asked has none; the event `run.notice` says why."""
        if not self._servers:
            return []
        listed = await self._scope.step("mcp-tools", "agent.mcp_tools", {"servers": list(self._servers)})
        assert isinstance(listed, list)
        return [self._tool(each) for each in listed if isinstance(each, dict) and each["server"] in self._servers]

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result as the protocol has it. Raises `McpFailed`."""
        connection = await self._connection(server)
        result = await connection.ask(lambda client: client.call_tool(tool, arguments), CALL_LIMIT_S)
        found: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return found

    async def list_tools(self, server: str) -> list[dict[str, JSON]]:
        """What the server offers. Raises `McpFailed`."""
        connection = await self._connection(server)
        found: list[dict[str, JSON]] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await connection.ask(partial(_ask_page, cursor), START_LIMIT_S)
            told = page.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in told["tools"]:
                about = {"description": each.get("description") or "", "parameters": each.get("inputSchema") or {}}
                found.append({"server": server, "tool": each["name"]} | about)
            cursor = told.get("nextCursor")
            if not cursor:
                break
        return found

    def _tool(self, listed: dict[str, Any]) -> McpTool:
        server, remote = listed["server"], listed["tool"]
        return McpTool(
            name=tool_name(server, remote),
            description=listed["description"],
            parameters={"type": "object", "properties": {}} | listed["parameters"],
            permission=self._servers[server].permission,
            server=server,
            remote_name=remote,
            servers=self,
            is_repeatable=self._servers[server].permission == "read",
        )

    async def _connection(self, name: str) -> _Connection:
        found = self._connections.get(name)
        if found is not None and found.is_open:
            return found
        if found is not None:
            await found.close()
        server = self._servers[name]
        mark = ids.new_ulid()
        if not server.url:
            await self._record(name, mark)
        errors = os.path.join(self._scratch, f"mcp-{mark}.stderr")
        connection = self._connections[name] = _Connection(name, server, self._cwd, mark, errors)
        await connection.open()
        return connection

    async def _record(self, name: str, mark: str) -> None:
        """Durable before the server is started. Only the mark tells what belongs to it: the leader stands for no process, so that
        nothing is taken for its group by a number."""
        me = process.current()
        group = Group(process.Identity(me.host, me.boot_id, me.pid, me.started - 1), mark)
        about: dict[str, JSON] = {"server": name, "process_group": msgspec.to_builtins(group)}
        self._scope.emit("agent.mcp.started", about, again=True)
        await self._scope.flush()


# Whose servers the operation asks, by run id and the path of the agent's step.
_listing: dict[str, McpServers] = {}


@operation("agent.mcp_tools")
async def list_mcp_tools(op: OperationContext, input: dict[str, Any]) -> JSON:
    """The tools of the servers, in their order."""
    servers = _listing[f"{op.run_id}:{os.path.dirname(op.step_id)}"]
    found: list[JSON] = []
    for name in input["servers"]:
        try:
            found += await servers.list_tools(name)
        except McpFailed as error:
            op.emit("run.notice", {"level": "warn", "code": "mcp_failed", "message": error.message})
    return found


class _Connection:
    """One server. A task of its own enters and leaves it, as the library wants both in the same task."""

    def __init__(self, name: str, server: McpServer, cwd: str, mark: str, errors: str) -> None:
        self._name = name
        self._server = server
        self._cwd = cwd
        self._mark = mark
        self._errors = errors
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self._task is not None and not self._task.done()

    async def open(self) -> None:
        """Start the server and shake hands. Raises `McpFailed`."""
        self._task = asyncio.create_task(self._live())
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await asyncio.shield(self._ready)
        except TimeoutError as error:
            failure = self._failed(f"did not answer in {START_LIMIT_S:g} s")
            await self.close()
            raise failure from error

    async def ask(self, request: Callable[[Any], Any], limit_s: float) -> Any:
        """What the server answers. Raises `McpFailed` when it says no, is gone, or takes too long."""
        client = await asyncio.shield(self._ready)
        try:
            async with asyncio.timeout(limit_s):
                return await request(client)
        except TimeoutError as error:
            failure = self._failed(f"did not answer in {limit_s:g} s; it is started anew at the next call")
            await self.close()
            raise failure from error
        except Exception as error:
            # The library's errors have no common class; what the server, its pipe or its answer did wrong is for the model.
            if getattr(error, "code", _CLOSED) != _CLOSED:
                raise McpFailed(f"The MCP server {self._name} failed: {_said(error)}.") from error
            failure = self._failed("has gone; it is started anew at the next call")
            await self.close()
            raise failure from error

    async def close(self) -> None:
        """End the server and all that it started."""
        self._leave.set()
        if self._task is not None:
            if not self._ready.done():
                self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if not self._ready.done():
            self._ready.set_exception(self._failed("was ended"))
            self._ready.exception()
        me = process.current()
        group = Group(process.Identity(me.host, me.boot_id, me.pid, me.started - 1), self._mark)
        await asyncio.get_running_loop().run_in_executor(None, end_leftovers, group)
        if os.path.exists(self._errors):
            os.unlink(self._errors)

    async def _live(self) -> None:
        try:
            await self._serve()
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            # As above: told to whoever waits for the server.
            if not self._ready.done():
                self._ready.set_exception(self._failed(f"cannot be used: {_said(error)}"))
        finally:
            if not self._ready.done():
                self._ready.set_exception(self._failed("was ended"))

    async def _serve(self) -> None:
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        server = self._server
        if server.url:
            async with Client(server.url) as client:
                self._ready.set_result(client)
                await self._leave.wait()
            return
        from perdure.sandbox.environment import resolve_variables

        env = resolve_variables(server.env, os.environ) | {MARK: self._mark}
        if find_program(server.command, env.get("PATH", os.environ.get("PATH"))) is None:
            raise McpFailed(f"there is no program {server.command}")
        parameters = StdioServerParameters(command=server.command, args=server.args, env=env, cwd=self._cwd)
        with open(self._errors, "w", encoding="utf-8", opener=_private) as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                self._ready.set_result(client)
                await self._leave.wait()

    def _failed(self, why: str) -> McpFailed:
        said = tail_text(self._errors, lines=5, max_bytes=2_000).strip()
        return McpFailed(f"The MCP server {self._name} {why}.{f' It said: {said}' if said else ''}")


def _ask_page(cursor: str | None, client: Any) -> Any:
    return client.list_tools(cursor=cursor)


def tool_name(server: str, tool: str) -> str:
    """`SERVER__TOOL` as every provider takes it: letters, digits, `_` and `-`, at most 64."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")
    if len(name) <= _MAX_NAME:
        return name
    from hashlib import sha256

    return f"{name[: _MAX_NAME - 9]}_{sha256(name.encode()).hexdigest()[:8]}"


def _text_of(result: dict[str, Any]) -> str:
    """The parts of a result as text; what is no text is named."""
    parts = []
    for each in result.get("content") or []:
        kind = each.get("type")
        if kind == "text":
            parts.append(str(each.get("text", "")))
        elif kind == "resource" and "text" in (each.get("resource") or {}):
            parts.append(str(each["resource"]["text"]))
        else:
            parts.append(f"[{kind} {each.get('mimeType') or each.get('uri') or ''} is not shown]")
    if not parts and result.get("structuredContent") is not None:
        return msgspec.json.encode(result["structuredContent"]).decode()
    return "\n".join(parts) or "[no output]"


def _said(error: BaseException) -> str:
    """The first thing that went wrong, out of the nest of groups, on one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split())[:500] or type(error).__name__


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
