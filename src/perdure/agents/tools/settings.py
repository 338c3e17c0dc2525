"""`[agents]` and `[mcp_servers.NAME]` of the settings: what agents may do, and the set of tools that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.agents.tools.fetch import FETCH
from perdure.agents.tools.files import EDIT, READ, WRITE
from perdure.agents.tools.mcp import McpServer
from perdure.agents.tools.permissions import Kind, Level, Mode, Policy
from perdure.agents.tools.search import GLOB, GREP, LIST
from perdure.agents.tools.shell import READ_OUTPUT, SHELL
from perdure.agents.tools.skills import Skill, skill_tool
from perdure.agents.tools.tool import SandboxKind, Tool, Toolbox, ToolContext
from perdure.base.errors import Refused
from perdure.sandbox.bwrap import find_bwrap
from perdure.sandbox.command import Filter

STANDARD = (READ, WRITE, EDIT, LIST, GLOB, GREP, SHELL, READ_OUTPUT, FETCH)


class ToolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the settings say of tools; docs/reference/agent-tools.md."""

    permissions: Level = "read-write"
    sandbox: SandboxKind = "none"
    network: bool = False
    private_addresses: bool = False
    deny: list[str] = []
    modes: dict[Kind, Mode] = {}
    mcp_servers: dict[str, McpServer] = {}

    def policy(self, *, is_attended: bool) -> Policy:
        """The policy for an agent; `is_attended`: a person can be asked while it works."""
        return Policy(
            level=self.permissions,
            deny=tuple(self.deny),
            modes=self.modes,
            is_confined=self.sandbox == "bwrap",
            allow_network=self.network,
            unresolved="ask" if is_attended else "refuse",
        )

    def context(
        self,
        root: str,
        cwd: str,
        env: Mapping[str, str],
        scratch: str,
        *,
        hidden: Sequence[str] = (),
        new_filter: Callable[[], Filter] | None = None,
    ) -> ToolContext:
        """What the tools of a conversation may use; nothing was read yet. Raises `SandboxMissing`, before anything is done."""
        if self.sandbox == "bwrap":
            find_bwrap(env.get("PATH"))
        return ToolContext(
            root=root,
            cwd=cwd,
            env=env,
            scratch=scratch,
            sandbox=self.sandbox,
            allow_network=self.network,
            allow_private_addresses=self.private_addresses,
            hidden=tuple(hidden),
            new_filter=new_filter,
        )


class BadToolSettings(Refused):
    """Settings of tools that cannot be used."""

    code = "bad_tool_settings"


def tool_settings(agents: Mapping[str, Any], mcp_servers: Mapping[str, Any]) -> ToolSettings:
    """The settings in the tables `[agents]` and `[mcp_servers]`. Raises `BadToolSettings` with the key."""
    try:
        found = msgspec.convert({**agents, "mcp_servers": dict(mcp_servers)}, ToolSettings)
    except msgspec.ValidationError as error:
        raise BadToolSettings(f"The settings [agents] or [mcp_servers] cannot be used: {error}.") from error
    for name, server in found.mcp_servers.items():
        if bool(server.command) == bool(server.url):
            raise BadToolSettings(f"[mcp_servers.{name}] needs either a command or a url.")
    return found


def toolbox(settings: ToolSettings, skills: Sequence[Skill], others: Sequence[Tool] = ()) -> Toolbox:
    """The tools of an agent, without those that a rule denies. Of two with one name the standard one stays."""
    tools: dict[str, Tool] = {}
    offered: list[Tool] = [*STANDARD, *([skill_tool(skills)] if skills else []), *others]
    for each in offered:
        if each.name not in settings.deny:
            tools.setdefault(each.name, each)
    return Toolbox(tools.values())
