"""The command backend: any program. It gets the prompt on its standard input and answers on its standard output.

An argument `{prompt_file}` stands for a file with the prompt; then the standard input is empty. An output that is one JSON object with
`text` or `response` is taken apart: `usage`, `files_touched` and a `directive` may stand beside it. Anything else is the text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.agents.backend import BackendError, TurnContext, TurnRequest, TurnResult
from perdure.base.errors import PerdureError
from perdure.sandbox.command import CommandMissing, CommandSpec, run_command, tail_text

MAX_ANSWER = 4 * 1024 * 1024
_PLACE = "{prompt_file}"


class CommandBackend:
    """Runs one program a turn."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)

    async def run(self, request: TurnRequest, turn: TurnContext) -> TurnResult:
        """The program's answer. An exit code other than 0 is a failure, whatever it printed or left behind."""
        prompt = "\n\n".join([request.prompt, *request.steering])
        prompt_file = f"{turn.scratch}.prompt"
        with open(prompt_file, "w", encoding="utf-8", errors="replace") as file:
            file.write(prompt)
        stdout, stderr = f"{turn.scratch}.stdout", f"{turn.scratch}.stderr"
        in_file = any(_PLACE in argument for argument in self._argv)
        spec = CommandSpec(
            argv=[argument.replace(_PLACE, prompt_file) for argument in self._argv],
            cwd=request.cwd,
            env=dict(request.env) | _variables(request, prompt_file),
            stdin=None if in_file else prompt.encode("utf-8", "replace"),
            timeout_ms=request.timeout_ms,
        )
        try:
            result = await run_command(
                spec, stdout_path=stdout, stderr_path=stderr, new_filter=turn.new_filter, on_started=turn.on_started
            )
            text = tail_text(stdout, lines=10**9, max_bytes=MAX_ANSWER)
            errors = tail_text(stderr)
        except CommandMissing as error:
            raise BackendError(str(error)) from error
        except PerdureError:
            raise
        finally:
            for path in (prompt_file, stdout, stderr):
                if os.path.exists(path):
                    os.unlink(path)
        if result.timed_out:
            seconds = (request.timeout_ms or 0) / 1000
            message = f"{self._argv[0]} ran longer than {seconds:g} s."
            raise BackendError(message, failure_class="transient_infra", retryable=True, partial=text)
        if result.exit_code != 0:
            message = f"{self._argv[0]} ended with exit code {result.exit_code}: {(errors or text)[-1_000:]}"
            raise BackendError(message, partial=text)
        return parse_answer(text)


def _variables(request: TurnRequest, prompt_file: str) -> dict[str, str]:
    return {
        "PERDURE_RUN_ID": request.run_id,
        "PERDURE_NODE_ID": request.node_id,
        "PERDURE_VISIT": str(request.visit),
        "PERDURE_ATTEMPT": str(request.attempt),
        "PERDURE_MODEL": request.model,
        "PERDURE_THREAD_ID": request.thread_id,
        "PERDURE_PROMPT_FILE": prompt_file,
    }


def parse_answer(text: str) -> TurnResult:
    """The answer that a program printed."""
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        try:
            value: Any = msgspec.json.decode(stripped.encode())
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict) and ("text" in value or "response" in value):
            said = value.get("text", value.get("response"))
            directive = value.get("directive")
            usage = value.get("usage")
            files = value.get("files_touched")
            return TurnResult(
                text=str(said),
                directive=directive if isinstance(directive, dict) else None,
                usage=usage if isinstance(usage, dict) else None,
                files_touched=[str(each) for each in files] if isinstance(files, list) else [],
                model=value.get("model"),
            )
    return TurnResult(stripped)
