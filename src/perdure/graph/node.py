"""The operations that run nodes: find the handler, call it, make of its outcome what the node's attributes say."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.base.errors import PerdureError
from perdure.base.jsonvalue import JSON
from perdure.graph.outcome import NodeOutcome, failed, try_again
from perdure.graph.runtime import Runtime, Visit, node_of
from perdure.kernel.operation import OperationFailed, operation
from perdure.kernel.outcome import Failure

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.kernel.context import OperationContext

Handler = Callable[[Visit], Awaitable[NodeOutcome]]

# One file a handler; `docs/howto/add-a-handler.md` says how to add one.
HANDLERS: dict[str, str | Handler] = {
    "start": "perdure.graph.handlers.passing:run",
    "exit": "perdure.graph.handlers.passing:run",
    "conditional": "perdure.graph.handlers.passing:run",
    "agent": "perdure.graph.handlers.agent:run",
    "prompt": "perdure.graph.handlers.agent:run",
    "command": "perdure.graph.handlers.command:run",
    "human": "perdure.graph.handlers.human:run",
    "parallel": "perdure.graph.handlers.parallel:run",
    "parallel.fan_in": "perdure.graph.handlers.fan_in:run",
    "wait": "perdure.graph.handlers.wait:run",
    "stack.manager_loop": "perdure.graph.handlers.manager_loop:run",
}
# These consist of steps and waits, or do nothing: their start and end need no commit of their own before effects.
WITHOUT_EFFECTS = frozenset({"start", "exit", "conditional", "human", "wait", "parallel", "stack.manager_loop"})


def operation_of(node: Node) -> str:
    """The operation that runs a node."""
    return "graph.route" if node.handler in WITHOUT_EFFECTS else "graph.node"


@operation("graph.node")
async def run_node(op: OperationContext, input: dict[str, Any]) -> JSON:
    """A node that does something outside."""
    runtime: Runtime = op.local
    if runtime.git:
        from perdure.graph.workspace import ensure_worktree

        ensure_worktree(op, runtime)
    if op.was_interrupted:
        from perdure.graph.recovery import clean_up

        await clean_up(op, runtime, runtime.places[input["place"]])
    return await _run(op, input)


@operation("graph.route", effects=False)
async def run_route(op: OperationContext, input: dict[str, Any]) -> JSON:
    """A node that consists of steps and waits."""
    return await _run(op, input)


async def _run(op: OperationContext, input: dict[str, Any]) -> JSON:
    runtime: Runtime = op.local
    node = node_of(runtime.graph, input["node"])
    visit = Visit(op, node, runtime, runtime.places[input["place"]], int(input["visit"]))
    refused = await runtime.hooks.blocked(op, "step_retrying", node.id) if op.attempt > 1 else None
    begun = time.monotonic()
    outcome = await _handled(visit) if refused is None else failed(refused)
    outcome = settled(
        outcome, node, is_last=op.attempt >= op.max_attempts, retries_failures=runtime.dialect.retries_failures
    )
    outcome = outcome.but(duration_ms=round((time.monotonic() - begun) * 1000), retries=op.attempt - 1)
    if outcome.status in ("failed", "retry"):
        failure = outcome.failure or Failure(f"Node {node.id} failed.")
        again = outcome.status == "retry"
        raise OperationFailed(failure, retryable=again, result=outcome.but(status="failed").to_json())
    return outcome.to_json()


async def _handled(visit: Visit) -> NodeOutcome:
    if visit.runtime.options.dry_run:
        from perdure.graph.dry_run import simulate

        return await simulate(visit)
    try:
        return await find_handler(visit.node.handler)(visit)
    except OSError as error:
        return try_again(f"{type(error).__name__}: {error}")
    except PerdureError as error:
        if error.code in ("disk_full", "claim_lost", "state_not_saved", "replay_diverged", "step_failed"):
            raise
        return failed(str(error))


def settled(outcome: NodeOutcome, node: Node, *, is_last: bool, retries_failures: bool = False) -> NodeOutcome:
    """What an attempt's outcome counts as: `retry` lasts while attempts are left; then `allow_partial` and `auto_status`."""
    if retries_failures and outcome.status == "failed":
        outcome = outcome.but(status="retry")
    if outcome.status == "retry" and not is_last:
        return outcome
    if outcome.status == "retry":
        if node.flag("allow_partial"):
            note = f"allow_partial: all attempts failed: {outcome.failure_reason}"
            outcome = outcome.but(status="partially_succeeded", notes=note, failure=None)
        else:
            outcome = outcome.but(status="failed")
    if node.flag("auto_status") and outcome.status not in ("succeeded", "skipped"):
        note = f"auto_status: {outcome.status} counts as succeeded"
        return outcome.but(status="succeeded", notes=note, failure=None)
    return outcome


def find_handler(name: str) -> Handler:
    """The handler of that name."""
    found = HANDLERS.get(name) or HANDLERS["agent"]
    if isinstance(found, str):
        module, _, function = found.partition(":")
        found = getattr(import_module(module), function)
        HANDLERS[name] = found
    return found
