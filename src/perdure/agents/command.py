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
from perdure.agents.ending import failure_of
from perdure.agents.environment import turn_environment
from perdure.base.errors import EnvironmentFault
from perdure.disk.atomic import write_new
from perdure.sandbox.command import CommandMissing, CommandResult, CommandSpec, run_command, tail_text

MAX_ANSWER = 4 * 1024 * 1024
_PLACE = "{prompt_file}"


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
            env=turn_environment(request, prompt_file),
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
        failure = failure_of(self._argv[0], request, result, said=errors or text, partial=text.strip(), report=report)
        if failure is not None:
            raise failure
        try:
            answer = parse_answer(text)
        except BackendError as error:
            error.report = report
            raise
        return AgentResult(answer.text, answer.directive, answer.usage, answer.files_touched, answer.model, report)


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
