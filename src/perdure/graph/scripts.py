"""A script of a graph, run in a place of the run, with its output recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.disk.atomic import private_folder
from perdure.sandbox.command import CommandResult, CommandSpec, run_command, script_argv, tail_text
from perdure.sandbox.environment import command_environment, resolve_variables

if TYPE_CHECKING:
    from perdure.graph.runtime import Place, Runtime
    from perdure.kernel.context import OperationContext
    from perdure.sandbox.groups import Group

# Of an output, this much is a value of the context; what is longer than a checkpoint holds lies in a file of its own.
WHOLE = 1024 * 1024


class Ended(msgspec.Struct, frozen=True):
    """A script that has ended: its result, and its outputs as a context may hold them."""

    result: CommandResult
    stdout: str
    stderr: str

    @property
    def why(self) -> str:
        """How it ended, and the end of what it printed."""
        result = self.result
        how = "it timed out" if result.timed_out else f"exit code {result.exit_code}"
        tail = (self.stderr.strip() or self.stdout.strip())[-1_000:]
        return f"{how}\n{tail}" if tail else how


def place_environment(runtime: Runtime, more: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of what a run starts."""
    options = runtime.options
    extra = resolve_variables(options.env, os.environ)
    extra |= {"PERDURE_RUN_ID": runtime.run_id, "PERDURE_GOAL": options.goal} | (more or {})
    return command_environment(os.environ, extra=extra, pass_through=options.pass_env)


async def run_script(
    op: OperationContext,
    runtime: Runtime,
    place: Place,
    script: str,
    language: str,
    timeout_ms: int | None,
    *,
    event: str = "command",
    node_id: str | None = None,
) -> Ended:
    """Run a script in the place's folder. Its process group is recorded before it does anything."""
    folder = os.path.join(runtime.run_dir, "cache", "spool")
    private_folder(folder)
    from perdure.base.names import file_name

    base = os.path.join(folder, f"{file_name(op.step_id)}.{op.attempt}")
    about: dict[str, JSON] = {"command": script, "script": script, "language": language, "timeout_ms": timeout_ms}
    if node_id is not None:
        about["node_id"] = node_id

    async def started(group: Group) -> None:
        op.emit(f"{event}.started", about | {"process_group": msgspec.to_builtins(group)}, again=True)
        await op.flush()

    spec = CommandSpec(
        argv=script_argv(script, language),
        cwd=place.work_dir,
        env=place_environment(runtime, {"PERDURE_NODE_ID": node_id or ""}),
        timeout_ms=timeout_ms,
    )
    new_filter = op.mask.stream if op.mask is not None else None
    result = await run_command(
        spec, stdout_path=f"{base}.stdout", stderr_path=f"{base}.stderr", new_filter=new_filter, on_started=started
    )
    ended = Ended(result, _for_context(f"{base}.stdout"), _for_context(f"{base}.stderr"))
    op.emit(
        f"{event}.completed",
        {
            "node_id": node_id,
            "stdout": op.keep_text(f"{base}.stdout"),
            "stderr": op.keep_text(f"{base}.stderr"),
            "exit_code": result.exit_code,
            "timed_out": result.timed_out,
            "duration_ms": result.duration_ms,
            "survivors": list(result.survivors),
        },
        again=True,
    )
    for name in ("stdout", "stderr"):
        if os.path.exists(f"{base}.{name}"):
            os.unlink(f"{base}.{name}")
    return ended


def _for_context(path: str) -> str:
    """An output as text: whole when it is small, else its beginning and its end with a mark between."""
    size = os.path.getsize(path)
    if size <= WHOLE:
        return tail_text(path, lines=1_000_000, max_bytes=WHOLE)
    with open(path, "rb") as file:
        head = file.read(WHOLE // 2).decode("utf-8", "replace")
    tail = tail_text(path, lines=1_000_000, max_bytes=WHOLE // 2)
    return f"{head}\n[... {size - WHOLE} bytes left out; the run directory has all of it ...]\n{tail}"
