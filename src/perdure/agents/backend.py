"""Backends: where an agent's answer comes from. One protocol; each backend is a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from perdure.agents.budget import Call
from perdure.base.errors import PerdureError, Refused
from perdure.base.jsonvalue import JSON
from perdure.kernel.context import OperationContext, RunContext
from perdure.kernel.outcome import FailureClass
from perdure.llm import MODELS
from perdure.sandbox.command import Filter
from perdure.sandbox.groups import Group


class AgentRequest(msgspec.Struct, frozen=True):
    """What an agent is asked, and where it works. `timeout_ms` None is for ever; an empty text or None is not asked for.

    `conversation` is what the result of an earlier request on the same thread said, so that the backend goes on in it; None begins anew.
    `permission` is what the agent may do: `read-only`, `read-write` or `full`; an empty text is the backend's own choice.
    `root` is the worktree that `cwd` lies in; `schema` is the JSON Schema that the answer must fulfil; `workspace` is the project's
    root, whose grants hold.
    """

    prompt: str
    node_id: str
    run_id: str
    visit: int
    attempt: int
    model: str
    provider: str
    reasoning_effort: str
    thread_id: str
    fidelity: str
    is_prompt_only: bool
    cwd: str
    env: Mapping[str, str]
    timeout_ms: int | None
    max_tokens: int | None
    conversation: JSON = None
    permission: str = ""
    root: str = ""
    schema: dict[str, Any] | None = None
    max_turns: int | None = None
    workspace: str = ""


class AgentSettings(msgspec.Struct, frozen=True):
    """What a run's settings say of models and tools. `fallbacks` are words `BACKEND:MODEL` by the backend that they follow, `*` for
    any; `agents` and `mcp_servers` are the tables of those names; `prices` are the person's own. With `needs_price` no model is asked
    whose price is not known."""

    base_url: str = ""
    fallbacks: Mapping[str, Sequence[str]] = {}
    agents: Mapping[str, Any] = {}
    mcp_servers: Mapping[str, Any] = {}
    prices: Mapping[str, Any] = {}
    needs_price: bool = False


# The scope of the turn, a name in it that nothing else has, the tool, its arguments; then also whether it failed, and its text.
BeforeTool = Callable[[RunContext, str, str, dict[str, Any]], Awaitable[str | None]]
AfterTool = Callable[[RunContext, str, str, dict[str, Any], bool, str], Awaitable[str | None]]


class AgentContext(msgspec.Struct, frozen=True):
    """What a backend may use: the operation that it works for, a scratch path, a filter for secrets, whom to tell that a process
    began, and a way to keep a finished file in the log (the file may be gone then). `settings` are the run's; `conversations` are
    those that other requests of this process had, by the `path` of their results.

    `before_tool` hears of a call of a model's tool in its turn's scope, with a place of its own, and says why it may not be made;
    `after_tool` hears what came of it, and says why that does not count. `check_budget` returns when an agent that has used so much
    may make one more call; `on_usage` hears what each call used."""

    op: OperationContext
    scratch: str
    new_filter: Callable[[], Filter] | None
    on_started: Callable[[Group], Awaitable[None]] | None
    keep_text: Callable[[str], JSON]
    settings: AgentSettings = AgentSettings()
    conversations: dict[str, Any] = {}
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    check_budget: Callable[[Mapping[str, Any], Call], Awaitable[None]] | None = None
    on_usage: Callable[[Mapping[str, Any]], None] = lambda _usage: None


class ProgramReport(msgspec.Struct, frozen=True):
    """How a backend's program ended. `exit_code` is None after a time-out, negative for a signal. `stdout` is kept only when
    the answer does not hold all of it."""

    exit_code: int | None
    timed_out: bool
    duration_ms: int
    survivors: list[int]
    stderr: JSON
    stdout: JSON = None


class AgentResult(msgspec.Struct, frozen=True):
    """What came back. `directive` is an object with what the backend says about the way on, apart from the text.

    `conversation` is what the backend needs to go on in this conversation later, small: an id, not a history.
    """

    text: str
    directive: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    files_touched: list[str] = []
    model: str | None = None
    report: ProgramReport | None = None
    conversation: JSON = None


class BackendError(PerdureError):
    """A backend gave no answer: why, of which class (None when only the message tells), and whether another try may help.

    `partial` is what came before the failure, `error_code` a stable word for programs where there is one.
    """

    code = "backend_failed"

    def __init__(
        self,
        message: str,
        *,
        failure_class: FailureClass | None = "deterministic",
        retryable: bool = False,
        partial: str = "",
        report: ProgramReport | None = None,
        error_code: str = "",
        usage: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.failure_class = failure_class
        self.retryable = retryable
        self.partial = partial
        self.report = report
        self.error_code = error_code
        self.usage = usage


class Backend(Protocol):
    """Answers one prompt at a time."""

    async def run(self, request: AgentRequest, turn: AgentContext) -> AgentResult:
        """The answer. Raises `BackendError`."""


# Where each coding-agent program's backend is made, from the command that a person gave for it.
_PROGRAMS = {
    "claude-code": "perdure.agents.programs.claude_code:claude_code",
    "codex": "perdure.agents.programs.codex:codex",
    "acp": "perdure.agents.programs.acp.backend:acp",
}
BACKENDS = ("command", "scripted", "simulated", *_PROGRAMS, *MODELS)


def find_backend(name: str, command: Sequence[str], script: str | None) -> Backend:
    """The backend of that name. Raises `Refused` for an unknown name, or when what it needs was not given."""
    if name in _PROGRAMS:
        from importlib import import_module

        module, _, factory = _PROGRAMS[name].partition(":")
        found: Backend = getattr(import_module(module), factory)(command)
        return found
    if name in MODELS:
        from perdure.agents.loop.backend import ModelBackend

        return ModelBackend(name)
    if name == "command":
        from perdure.agents.command import CommandBackend

        if not command:
            raise Refused("The backend 'command' needs a program.", hint='Pass --command "PROGRAM ARGS".')
        return CommandBackend(command)
    if name == "scripted":
        from perdure.agents.scripted import ScriptedBackend

        if not script:
            raise Refused("The backend 'scripted' needs a file of answers.", hint="Pass --script FILE.")
        return ScriptedBackend.load(script)
    if name == "simulated":
        from perdure.agents.simulated import SimulatedBackend

        return SimulatedBackend()
    raise Refused(f"There is no backend {name!r}.", hint=f"Known: {', '.join(BACKENDS)}.")


def command_for(name: str, chosen: str | None, command: Sequence[str]) -> Sequence[str]:
    """What of a run's `--command` is meant for this backend, when `chosen` is the backend that the whole run names: the command of
    another backend is not the program of this one. `acp` has no program of its own, so it takes what there is."""
    return command if name in ("acp", chosen or "command") else ()
