"""shell: one command of bash, in a process group of its own; and read_output: the whole of a long output."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from perdure.agents.tools.output import outcome_of, outcome_of_file, scratch_file
from perdure.agents.tools.tool import NativeTool, ToolFault, ToolOutcome
from perdure.sandbox.command import CommandMissing, CommandResult, CommandSpec, run_command, script_argv

if TYPE_CHECKING:
    from perdure.agents.tools.tool import Invocation

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
# Both outputs go the same way, so that the model reads them in the order in which they came.
_JOINED = ("/bin/sh", "-c", 'exec "$@" 2>&1', "perdure")
_PIECE = 20_000


class ShellArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `shell` takes."""

    command: Annotated[str, Meta(min_length=1, description="What bash runs. Nothing can be typed into it.")]
    timeout_s: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT_S, description="Seconds until it is ended.")] = (
        DEFAULT_TIMEOUT_S
    )


class OutputArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `read_output` takes."""

    call_id: Annotated[str, Meta(description="The call, as its cut output names it.")]
    offset: Annotated[int, Meta(ge=0, description="First character, counted from 0.")] = 0


async def run_shell(arguments: ShellArguments, call: Invocation) -> ToolOutcome:
    """What the command printed and how it ended. Nothing that it started goes on afterwards. Raises `SandboxMissing`."""
    if "\0" in arguments.command:
        raise ToolFault("A command cannot hold a NUL.")
    context = call.context
    argv = script_argv(arguments.command, "shell")
    if context.sandbox == "bwrap":
        from perdure.sandbox.bwrap import Confinement, confine

        argv = confine(
            argv, Confinement(context.root, context.cwd, context.hidden, context.allow_network), context.env.get("PATH")
        )
    stdout, stderr = scratch_file(call, "stdout"), scratch_file(call, "stderr")
    spec = CommandSpec([*_JOINED, *argv], context.cwd, context.env, timeout_ms=arguments.timeout_s * 1000)
    try:
        result = await run_command(
            spec, stdout_path=stdout, stderr_path=stderr, new_filter=context.new_filter, on_started=call.on_started
        )
        is_error = result.exit_code != 0
        return outcome_of_file(stdout, call, is_error=is_error, after=_ending(result, arguments.timeout_s))
    except CommandMissing as error:
        raise ToolFault(str(error)) from error
    finally:
        for path in (stdout, stderr):
            with suppress(FileNotFoundError):
                os.unlink(path)


def _ending(result: CommandResult, timeout_s: int) -> str:
    if result.timed_out:
        text = f"\n[ended after {timeout_s} s, with all that it started; timeout_s may be up to {MAX_TIMEOUT_S}]"
    elif result.exit_code and result.exit_code < 0:
        text = f"\n[ended by signal {-result.exit_code}]"
    elif result.exit_code:
        text = f"\n[exit code {result.exit_code}]"
    else:
        text = "" if result.stdout_bytes else "[no output]"
    return text + (f"\n[these processes would not end: {result.survivors}]" if result.survivors else "")


async def read_output(arguments: OutputArguments, call: Invocation) -> ToolOutcome:
    """A piece of an output that was cut."""
    kept = call.context.kept.get(arguments.call_id)
    if kept is None:
        known = ", ".join(call.context.kept) or "none"
        raise ToolFault(f"No output of a call {arguments.call_id!r} is kept. Kept: {known}.")
    text = call.read_kept(kept)
    piece = text[arguments.offset : arguments.offset + _PIECE]
    if not piece:
        raise ToolFault(f"The output has {len(text)} characters.")
    end = arguments.offset + len(piece)
    after = f"\n[characters {arguments.offset} to {end} of {len(text)}]"
    return outcome_of(piece, call, after=after)


SHELL = NativeTool(
    "shell",
    "Run a command with bash in the working folder. It gets no input. When it ends, what it left in the background ends too.",
    ShellArguments,
    "execute",
    False,
    run_shell,
)
READ_OUTPUT = NativeTool(
    "read_output",
    "Read a long output whose middle was left out, by the id of its call.",
    OutputArguments,
    "read",
    True,
    read_output,
)
