"""The command backend: any program. It gets the prompt on its standard input and answers on its standard output.

An argument with `{prompt_file}` stands for a file with the prompt; then the standard input is empty. How the output is read:
`answer.py`. The whole contract: docs/reference/backend-command.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from perdure.agents.answer import parse_answer
from perdure.agents.backend import AgentContext, AgentRequest, AgentResult, BackendError, ProgramReport
from perdure.base.errors import EnvironmentFault
from perdure.disk.atomic import write_new
from perdure.sandbox.command import CommandMissing, CommandResult, CommandSpec, run_command, tail_text

MAX_ANSWER = 4 * 1024 * 1024
# The exit code by which programs say that the same call may succeed later (EX_TEMPFAIL).
TRY_AGAIN = 75
_PLACE = "{prompt_file}"
_NAMES = (
    "PERDURE_RUN_ID", "PERDURE_NODE_ID", "PERDURE_VISIT", "PERDURE_ATTEMPT", "PERDURE_MODEL", "PERDURE_PROVIDER",
    "PERDURE_REASONING_EFFORT", "PERDURE_MAX_TOKENS", "PERDURE_THREAD_ID", "PERDURE_FIDELITY", "PERDURE_PROMPT_ONLY",
    "PERDURE_PROMPT_FILE",
)  # fmt: skip


class CommandBackend:
    """Runs one program a turn."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)

    async def run(self, request: AgentRequest, turn: AgentContext) -> AgentResult:
        """The program's answer. An exit code other than 0 is a failure, whatever it printed or left behind."""
        prompt = request.prompt.encode("utf-8", "replace")
        prompt_file, stdout, stderr = (f"{turn.scratch}.{name}" for name in ("prompt", "stdout", "stderr"))
        write_new(prompt_file, prompt)
        in_file = any(_PLACE in argument for argument in self._argv)
        spec = CommandSpec(
            argv=[argument.replace(_PLACE, prompt_file) for argument in self._argv],
            cwd=request.cwd,
            env=_environment(request, prompt_file),
            stdin=None if in_file else prompt,
            timeout_ms=request.timeout_ms,
        )
        try:
            result = await run_command(
                spec, stdout_path=stdout, stderr_path=stderr, new_filter=turn.new_filter, on_started=turn.on_started
            )
            return self._answer(request, turn, result)
        except CommandMissing as error:
            raise BackendError(str(error)) from error
        finally:
            for path in (prompt_file, stdout, stderr):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def _answer(self, request: AgentRequest, turn: AgentContext, result: CommandResult) -> AgentResult:
        """What the program said, once it has ended."""
        text, is_whole = _read_answer(f"{turn.scratch}.stdout")
        errors = tail_text(f"{turn.scratch}.stderr").strip()
        report = ProgramReport(
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            duration_ms=result.duration_ms,
            survivors=result.survivors,
            stderr=turn.keep_text(f"{turn.scratch}.stderr"),
            stdout=None if is_whole else turn.keep_text(f"{turn.scratch}.stdout"),
        )
        program = self._argv[0]
        if result.timed_out:
            message = f"{program} ran longer than {(request.timeout_ms or 0) / 1000:g} s."
            raise BackendError(
                message, failure_class="transient_infra", retryable=True, partial=text.strip(), report=report
            )
        if result.exit_code != 0:
            message = (
                f"{program} {_ending(result.exit_code)}: {(errors or text.strip())[-1_000:] or 'it said nothing.'}"
            )
            again = result.exit_code == TRY_AGAIN
            raise BackendError(
                message,
                failure_class="transient_infra" if again else None,
                retryable=again,
                partial=text.strip(),
                report=report,
            )
        try:
            answer = parse_answer(text)
        except BackendError as error:
            error.report = report
            raise
        return AgentResult(answer.text, answer.directive, answer.usage, answer.files_touched, answer.model, report)


def _ending(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"ended with exit code {exit_code}"


def _environment(request: AgentRequest, prompt_file: str) -> dict[str, str]:
    """The variables of this turn. Those of a run around this one are not the agent's, and what nobody asked for is not set."""
    values = (
        request.run_id, request.node_id, str(request.visit), str(request.attempt), request.model, request.provider,
        request.reasoning_effort, "" if request.max_tokens is None else str(request.max_tokens), request.thread_id,
        request.fidelity, "1" if request.is_prompt_only else "", prompt_file,
    )  # fmt: skip
    env = {name: value for name, value in request.env.items() if name not in _NAMES}
    return env | {name: value for name, value in zip(_NAMES, values, strict=True) if value}


def _read_answer(path: str) -> tuple[str, bool]:
    """An output as text, what is no UTF-8 replaced, and whether that is all of it: of a very long one it is the end."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            left_out = max(0, size - MAX_ANSWER)
            file.seek(left_out)
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise EnvironmentFault(f"The output {path} cannot be read: {error.strerror}.") from error
    if not left_out:
        return text, True
    return f"[... {left_out} bytes left out; stdout.log has all of it ...]\n{text}", False
