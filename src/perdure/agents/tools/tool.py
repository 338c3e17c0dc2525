"""What a tool is, what it may use, and what it gives back.

A tool never raises for what a model can mend: arguments that are no JSON, a file that is not there, a command that fails. All
that is a result marked as an error, which the model reads. Only a defect, or a disk that does not work, is an exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.llm.protocol import Tool as ToolDefinition
from perdure.sandbox.command import Filter
from perdure.sandbox.groups import Group

Permission = Literal["read", "write", "execute", "network"]
SandboxKind = Literal["none", "bwrap"]


class Seen(msgspec.Struct, frozen=True):
    """A file as the model saw or wrote it: its real path, and the SHA-256 of its content."""

    path: str
    digest: str


class Guard:
    """Which files the conversation has seen, and in what state. It is made again from recorded results: see `remember`."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def saw(self, path: str, digest: str) -> None:
        """The model knows this content of the file."""
        self._seen[path] = digest

    def known(self, path: str) -> str | None:
        """The digest of the content that the model knows; None when it never saw the file."""
        return self._seen.get(path)


@dataclass(slots=True)
class ToolContext:
    """What the tools of one conversation may use.

    `root` is the worktree: files are read and written only in it; commands begin in `cwd`. `hidden` are folders that nothing may
    look into (the state home). `scratch` is a folder on the disk of the blobs, for output while it comes. `kept` holds whole
    outputs by the call that made them. `guard` and `kept` are made again from recorded results by `remember`.
    """

    root: str
    cwd: str
    env: Mapping[str, str]
    scratch: str
    sandbox: SandboxKind = "none"
    allow_network: bool = False
    allow_private_addresses: bool = False
    hidden: tuple[str, ...] = ()
    new_filter: Callable[[], Filter] | None = None
    guard: Guard = field(default_factory=Guard)
    kept: dict[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of a tool.

    `place` names the call within its run, also when it runs again after a crash (the call's id may come again in other turns).
    `keep_text` moves a finished file into the log, `read_kept` gives the text of an output that was kept. `on_started` returns when
    a process group is recorded, `begin` when the begin of a call without one is. `was_interrupted`: an earlier owner died in this very
    call.
    """

    context: ToolContext
    call_id: str
    place: str
    keep_text: Callable[[str], JSON]
    read_kept: Callable[[JSON], str]
    on_started: Callable[[Group], Awaitable[None]] | None = None
    begin: Callable[[], Awaitable[None]] | None = None
    was_interrupted: bool = False


class ToolOutcome(msgspec.Struct, frozen=True):
    """What a call came to: the text for the model, whether it is an error, the whole output when the text is only a part of it,
    and the files whose content the model now knows."""

    text: str
    is_error: bool = False
    full_text: JSON = None
    saw: tuple[Seen, ...] = ()


class ToolFault(Exception):
    """A call that came to nothing, in words for the model."""


class Tool(Protocol):
    """One tool. `permission` None: nobody said what it does, so only a grant allows it.

    `is_repeatable`: when its owner died in a call, the same call may simply run again, or finds out by itself what it did.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def permission(self) -> Permission | None: ...
    @property
    def is_repeatable(self) -> bool: ...

    async def run(self, arguments: dict[str, Any], call: Invocation) -> ToolOutcome:
        """The outcome. Raises `ToolFault` for what the model can mend."""


@dataclass(frozen=True, slots=True)
class NativeTool:
    """A tool whose arguments are a record: its JSON Schema is made from it, and what a model gives is checked against it."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    permission: Permission | None
    is_repeatable: bool
    function: Callable[[Any, Invocation], Awaitable[ToolOutcome]]

    @property
    def parameters(self) -> dict[str, Any]:
        _references, components = msgspec.json.schema_components((self.arguments,), ref_template="#/$defs/{name}")
        schema = dict(components[self.arguments.__name__])
        schema.pop("title", None)
        return schema

    async def run(self, arguments: dict[str, Any], call: Invocation) -> ToolOutcome:
        try:
            checked = msgspec.convert(arguments, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            raise ToolFault(f"The arguments of {self.name} do not fit: {error}.") from error
        return await self.function(checked, call)


class Toolbox:
    """The tools of an agent, by name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def find(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    @property
    def names(self) -> list[str]:
        """The names of all tools."""
        return list(self._tools)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as a model is told of them, always in the same order."""
        return tuple(ToolDefinition(each.name, each.description, each.parameters) for each in self._tools.values())

    async def run(self, name: str, arguments: str, call: Invocation) -> ToolOutcome:
        """Call a tool with the JSON text that the model wrote. Whatever the model did wrong is an error result."""
        tool = self.find(name)
        try:
            if tool is None:
                raise ToolFault(f"There is no tool {name!r}. There are: {', '.join(self.names)}.")  # noqa: TRY301 - one way out
            return await tool.run(parse_arguments(name, arguments), call)
        except ToolFault as fault:
            return ToolOutcome(str(fault), is_error=True)


def parse_arguments(name: str, arguments: str) -> dict[str, Any]:
    """The arguments as an object. Raises `ToolFault`."""
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ToolFault(f"The arguments of {name} are no JSON: {error}. Write one JSON object.") from error
    if not isinstance(value, dict):
        raise ToolFault(f"The arguments of {name} are no JSON object.")
    return value


def remember(context: ToolContext, call_id: str, result: Mapping[str, Any]) -> None:
    """Let the conversation know what a recorded result of `agent.tool` says: the files seen, the output kept."""
    for each in result.get("saw") or ():
        context.guard.saw(each["path"], each["digest"])
    if result.get("blob") is not None:
        context.kept[call_id] = result["blob"]
