"""After a kill in the middle of a node: what it started is ended, what it left in the worktree is kept aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from perdure.base.names import file_name
from perdure.sandbox.groups import Group, end_leftovers

if TYPE_CHECKING:
    from perdure.graph.runtime import Place, Runtime
    from perdure.kernel.context import OperationContext


async def end_started(op: OperationContext) -> None:
    """End what is left of the processes that the interrupted attempt had started."""
    import asyncio

    loop = asyncio.get_running_loop()
    for name in ("command.started", "setup.command.started", "agent.cli.started", "agent.mcp.started", "hook.started"):
        for started in op.recorded(name):
            group = started.get("process_group")
            if isinstance(group, dict):
                survivors = await loop.run_in_executor(None, end_leftovers, msgspec.convert(group, Group))
                if survivors:
                    _notice(op, "leftover_processes", f"These processes would not end: {survivors}.")


async def clean_up(op: OperationContext, runtime: Runtime, place: Place) -> None:
    """End the processes of the interrupted attempt, then put its worktree back to the last checkpoint.

    An agent that goes on inside its conversation remembers what it did to the files, so it finds them as they were. A model's turns
    are in the log, so it goes on for certain; a program may have lost its session, so its files are kept aside as well."""
    await end_started(op)
    if not runtime.git or not place.worktree or op.has_record("turn-1/model"):
        return
    from perdure.git.salvage import reset, salvage

    label = f"{file_name(op.step_id)}-{op.attempt}-{len(op.recorded('command.started'))}"
    kept = salvage(place.worktree, runtime.run_id, label)
    if kept is not None:
        _notice(op, "salvaged", f"What {op.step_id} had not finished is kept as commit {kept}.")
        if not op.recorded("agent.session.opened"):
            reset(place.worktree)


def _notice(op: OperationContext, code: str, message: str) -> None:
    op.emit("run.notice", {"level": "warn", "code": code, "message": message}, again=True)
