"""One turn of a program that reads a prompt and prints JSON lines: what such programs share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol

import msgspec

from perdure.agents.backend import AgentContext, AgentRequest, AgentResult, BackendError, ProgramReport
from perdure.agents.ending import failure_of
from perdure.agents.environment import turn_environment
from perdure.agents.programs.sessions import Plan, afresh, conversation, plan_turn
from perdure.agents.programs.telling import Telling
from perdure.kernel.outcome import FailureClass
from perdure.sandbox.command import CommandMissing, CommandResult, CommandSpec, run_command, tail_text
from perdure.sandbox.groups import Group
from perdure.sandbox.lines import LineSplitter

Level = Literal["read-only", "read-write", "full"]
MAX_LINE = 64 * 1024 * 1024
# Variables by which a program knows that it runs inside another one of its kind, which this one does not.
_OUTER = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
)


class Said(msgspec.Struct):
    """What a program has said so far. `is_complete` only when it said that the turn is over; `is_lost` when it does not know the
    session; `failure` is its own word for what went wrong; `total` what the session has used in all, of programs that count so."""

    session_id: str = ""
    text: str = ""
    model: str = ""
    usage: dict[str, Any] | None = None
    total: dict[str, float] | None = None
    files: dict[str, None] = {}
    is_complete: bool = False
    is_lost: bool = False
    failure: str = ""
    failure_class: FailureClass | None = None
    is_retryable: bool = False


class Reader(Protocol):
    """Understands the lines of one program."""

    said: Said

    def take(self, record: dict[str, Any]) -> None:
        """One line. What it does not know it ignores."""

    def ended(self, exit_code: int | None, errors: str) -> None:
        """The program has ended, and this is the end of its standard error."""


class Program(Protocol):
    """What is special about one program. `title` and `install` are for people."""

    name: str
    title: str
    install: str
    command: Sequence[str]

    def check(self, request: AgentRequest) -> None:
        """Raises `BackendError` for what the program would refuse anyhow."""

    def new_session_id(self) -> str:
        """An id for a new session, when the program takes one; else an empty text."""

    def argv(self, request: AgentRequest, plan: Plan, new_id: str) -> list[str]:
        """The command of a turn; the prompt comes on its standard input."""

    def reader(self, request: AgentRequest, plan: Plan, telling: Telling) -> Reader:
        """Who understands it."""


class ProgramBackend:
    """The backend of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    async def run(self, request: AgentRequest, turn: AgentContext) -> AgentResult:
        """The program's last message, once it said that the turn is over. Raises `BackendError`.

        A turn that an earlier owner had begun goes on in the program's session, unless the program does not know it."""
        self.program.check(request)
        plan = plan_from_log(request, turn)
        telling = Telling(request, turn, self.program.name)
        try:
            reader, result = await self._once(request, turn, plan, telling)
            if reader.said.is_lost and plan.session_id:
                telling.lost(plan.session_id, reader.said.failure)
                plan = afresh(request, plan)
                reader, result = await self._once(request, turn, plan, telling)
            return self._answer(request, turn, reader.said, result)
        except CommandMissing as error:
            raise missing(self.program.title, self.program.install, request, error) from error
        finally:
            remove_scratch(turn)

    async def _once(
        self, request: AgentRequest, turn: AgentContext, plan: Plan, telling: Telling
    ) -> tuple[Reader, CommandResult]:
        """Run the program once."""
        new_id = "" if plan.session_id else self.program.new_session_id()

        async def started(group: Group) -> None:
            # Before the program does anything: so the session can be found again whenever this process dies.
            telling.opened(plan.session_id or new_id, plan.way)
            if turn.on_started is not None:
                await turn.on_started(group)

        reader = self.program.reader(request, plan, telling)
        splitter = LineSplitter(MAX_LINE)

        def heard(name: str, piece: bytes) -> None:
            if name == "stdout":
                for line in splitter.feed(piece):
                    _take(reader, line)

        spec = CommandSpec(
            argv=self.program.argv(request, plan, new_id),
            cwd=request.cwd,
            env=program_environment(request),
            stdin=plan.prompt.encode("utf-8", "replace"),
            timeout_ms=request.timeout_ms,
        )
        result = await run_command(
            spec,
            stdout_path=f"{turn.scratch}.stdout",
            stderr_path=f"{turn.scratch}.stderr",
            new_filter=turn.new_filter,
            on_started=started,
            on_output=heard,
        )
        # A last line without its newline counts only when it is whole.
        _take(reader, splitter.rest())
        if splitter.left_out:
            telling.said(f"{splitter.left_out} lines of more than {MAX_LINE} bytes were not read.", "warning")
        reader.ended(result.exit_code, tail_text(f"{turn.scratch}.stderr").strip())
        return reader, result

    def _answer(self, request: AgentRequest, turn: AgentContext, said: Said, result: CommandResult) -> AgentResult:
        """The answer in what was said, once the program has ended."""
        report = report_of(turn, result)
        partial = masked(turn, said.text)
        if said.failure and not result.timed_out:
            raise BackendError(
                f"{self.program.title} failed: {masked(turn, said.failure)[-1_000:]}",
                failure_class=said.failure_class,
                retryable=said.is_retryable,
                partial=partial,
                report=report,
            )
        errors = tail_text(f"{turn.scratch}.stderr")
        failure = failure_of(self.program.command[0], request, result, said=errors, partial=partial, report=report)
        if failure is not None:
            raise failure
        if not said.is_complete:
            message = (
                f"{self.program.title} ended without saying that its turn is over. {errors.strip()[-1_000:]}".strip()
            )
            raise BackendError(message, failure_class=None, partial=partial, report=report)
        return AgentResult(
            text=partial,
            usage=said.usage,
            files_touched=[*said.files],
            model=said.model or None,
            report=report,
            conversation=conversation(said.session_id, said.total),
        )


def _take(reader: Reader, line: bytes | None) -> None:
    """Give a line to the reader; what is no JSON object is something else that the program printed."""
    if not line or not line.lstrip().startswith(b"{"):
        return
    try:
        record: Any = msgspec.json.decode(line.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return
    if isinstance(record, dict):
        reader.take(record)


def plan_from_log(request: AgentRequest, turn: AgentContext) -> Plan:
    """How the turn goes on, by what earlier owners of this attempt recorded."""
    names = ("agent.session.opened", "agent.session.lost", "agent.message")
    return plan_turn(request, *(turn.op.recorded(name) for name in names))


def program_environment(request: AgentRequest) -> dict[str, str]:
    """What a program sees of the environment: what the run gives it, and its turn."""
    return {name: value for name, value in turn_environment(request, "").items() if name not in _OUTER}


def level_of(request: AgentRequest) -> Level:
    """What the agent may do. A node that wants one answer without tools changes nothing, nor does one with an unknown word."""
    if request.is_prompt_only:
        return "read-only"
    if request.permission == "full":
        return "full"
    return "read-write" if request.permission in ("", "read-write") else "read-only"


def missing(title: str, install: str, request: AgentRequest, error: CommandMissing) -> BackendError:
    """A program that is not there, with the way to get it."""
    if not os.path.isdir(request.cwd):
        return BackendError(str(error))
    return BackendError(f"{error.message} {title} is not installed, or not on PATH. {install}")


def report_of(turn: AgentContext, result: CommandResult) -> ProgramReport:
    """How the program ended, with all that it printed."""
    return ProgramReport(
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        duration_ms=result.duration_ms,
        survivors=result.survivors,
        stderr=turn.keep_text(f"{turn.scratch}.stderr"),
        stdout=turn.keep_text(f"{turn.scratch}.stdout"),
    )


def remove_scratch(turn: AgentContext) -> None:
    """Remove the files of the turn; what they held is in the log."""
    for name in ("stdout", "stderr"):
        with suppress(FileNotFoundError):
            os.unlink(f"{turn.scratch}.{name}")


def masked(turn: AgentContext, text: str) -> str:
    """The text without secrets and without halves of characters."""
    content = text.encode("utf-8", "replace")
    if turn.new_filter is not None:
        found = turn.new_filter()
        content = found.feed(content) + found.close()
    return content.decode("utf-8", "replace")


def inside(cwd: str, path: object) -> str:
    """A file's name as the working folder has it; an empty text for what is no path."""
    if not isinstance(path, str) or not path:
        return ""
    full = os.path.normpath(os.path.join(cwd, path))
    return os.path.relpath(full, cwd) if full.startswith(cwd.rstrip(os.sep) + os.sep) else full
