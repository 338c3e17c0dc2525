"""The loop that walks a graph: a plain, deterministic program over recorded steps.

Everything it decides with comes from the graph and from recorded outcomes, so walking again from the start leads to the same place.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from perdure.graph import workspace
from perdure.graph.runtime import Runtime
from perdure.graph.walker import Walker
from perdure.kernel.outcome import Failure, Outcome

if TYPE_CHECKING:
    from perdure.graph.definition import GraphDefinition
    from perdure.kernel.context import RunContext

WATCH_S = 1.0


async def interpret(definition: GraphDefinition, run: RunContext) -> Outcome:
    """Run the graph to its end."""
    import perdure.graph.node  # registers the operations

    del perdure
    runtime = Runtime(definition, run.run_dir, run.run_id, run.start)
    run.local = runtime
    hooks = runtime.hooks
    await workspace.prepare(run, runtime)
    if runtime.options.artifacts:
        from perdure.graph import capture

        await capture.begin(run, runtime)
    blocked = await hooks.blocked(run, "run_start") or await hooks.blocked(run, "sandbox_ready")
    if blocked is not None:
        outcome = Outcome("failed", "blocked_by_hook", Failure(blocked))
    else:
        outcome = await _set_up(run, runtime) or await _watched(run, runtime)
    refused = await hooks.blocked(run, "run_complete" if outcome.is_good else "run_failed")
    if refused is not None and outcome.is_good:
        outcome = Outcome("failed", "blocked_by_hook", Failure(refused), outcome.output)
    if definition.options.retro:
        from perdure.graph.retro import tell

        tell(run, runtime, outcome)
    used = runtime.spent.total(run)
    if used:
        outcome = msgspec.structs.replace(outcome, properties=outcome.properties | {"usage": used})
    kept = await hooks.blocked(run, "sandbox_cleanup")
    outcome = await workspace.finish(run, runtime, outcome, kept_because=kept)
    workspace.tidy(run.run_dir)
    return outcome


async def _set_up(run: RunContext, runtime: Runtime) -> Outcome | None:
    """The setup commands, in their order; an outcome only when one fails."""
    from perdure.kernel.operation import StepFailed

    options = runtime.options
    if not options.setup or options.dry_run:
        return None
    run.emit("setup.started", {"commands": len(options.setup)})
    for number, command in enumerate(options.setup):
        try:
            input = {"command": command, "index": number, "timeout_ms": options.setup_timeout_ms}
            await run.step("+setup", "graph.setup", input)
        except StepFailed as error:
            run.emit("setup.failed", {"command": command, "failure": error.failure.message})
            return Outcome("failed", "setup_failed", error.failure)
    run.emit("setup.completed", {})
    return None


async def _watched(run: RunContext, runtime: Runtime) -> Outcome:
    """Walk, and fail when nothing happens for longer than the graph's `stall_timeout`."""
    walk = Walker(run, runtime).walk()
    if runtime.options.dry_run or not _may_stall(runtime):
        return await walk
    walking = asyncio.get_running_loop().create_task(walk)
    try:
        while True:
            limit = runtime.stall_ms
            done, _ = await asyncio.wait([walking], timeout=min(WATCH_S, limit / 1000) if limit else WATCH_S)
            if done:
                return walking.result()
            if 0 < runtime.stall_ms < run.idle_ms:
                break
    except asyncio.CancelledError:
        walking.cancel()
        with suppress(asyncio.CancelledError):
            await walking
        raise
    limit = runtime.stall_ms
    walking.cancel()
    with suppress(asyncio.CancelledError):
        await walking
    run.emit("watchdog.timeout", {"idle_seconds": round(limit / 1000), "node_id": runtime.state.last_node}, again=True)
    message = f"Nothing happened for {limit // 1000} s (stall_timeout)."
    return Outcome("failed", "stalled", Failure(message, "transient_infra", code="stalled"))


def _may_stall(runtime: Runtime) -> bool:
    """Whether anything in the graph limits how long nothing may happen."""
    nodes = runtime.graph.nodes.values()
    return bool(runtime.stall_ms) or any("stall_timeout" in node.attrs for node in nodes)
