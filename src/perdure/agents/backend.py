"""Backends: where an agent's answer comes from. One protocol; each backend is a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from perdure.base.errors import PerdureError, Refused
from perdure.kernel.outcome import FailureClass
from perdure.sandbox.command import Filter
from perdure.sandbox.groups import Group


class TurnRequest(msgspec.Struct, frozen=True):
    """What an agent is asked, and where it works. `timeout_ms` None is for ever."""

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
    steering: Sequence[str] = ()


class TurnContext(msgspec.Struct, frozen=True):
    """What a backend may use: a scratch path, a filter for secrets, and whom to tell that a process began."""

    scratch: str
    new_filter: Callable[[], Filter] | None
    on_started: Callable[[Group], Awaitable[None]] | None


class TurnResult(msgspec.Struct, frozen=True):
    """What came back. `directive` is a routing object when the backend gives one apart from the text."""

    text: str
    directive: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    files_touched: list[str] = []
    model: str | None = None


class BackendError(PerdureError):
    """A backend gave no answer: why, of which class, and whether another try may help."""

    code = "backend_failed"

    def __init__(
        self, message: str, *, failure_class: FailureClass = "deterministic", retryable: bool = False, partial: str = ""
    ) -> None:
        super().__init__(message)
        self.failure_class = failure_class
        self.retryable = retryable
        self.partial = partial


class Backend(Protocol):
    """Answers one prompt at a time."""

    async def run(self, request: TurnRequest, turn: TurnContext) -> TurnResult:
        """The answer. Raises `BackendError`."""


BACKENDS = ("command", "scripted", "simulated")


def find_backend(name: str, command: Sequence[str], script: str | None) -> Backend:
    """The backend of that name. Raises `Refused` for an unknown name, or when what it needs was not given."""
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
