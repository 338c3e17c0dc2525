"""One visit of a node as one step of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.base.jsonvalue import digest
from perdure.graph.model import as_text
from perdure.graph.node import operation_of
from perdure.graph.outcome import NodeOutcome, failed, outcome_of
from perdure.graph.policies import retry_policy
from perdure.kernel.operation import StepFailed
from perdure.kernel.outcome import Failure

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.runtime import Place, Runtime
    from perdure.kernel.context import RunContext


async def hooked_visit(
    run: RunContext, runtime: Runtime, place: Place, node: Node, number: int, *, beside: RunContext | None = None
) -> NodeOutcome:
    """The node's outcome, with the hooks around it called: one may skip the node, or block it, which is a failure.

    The calls are recorded `beside` the node; branches that share a scope each have a place of their own for that.
    """
    hooks, at = runtime.hooks, beside or run
    decision = await hooks.fire(at, "step_start", node.id)
    if decision is not None and decision.decision in ("skip", "block"):
        at.emit("step.skipped", {"node_id": node.id, "reason": decision.reason})
        is_skip = decision.decision == "skip"
        outcome = NodeOutcome("skipped", notes=decision.reason) if is_skip else failed(decision.reason)
    else:
        outcome = await visit_node(run, runtime, place, node, number)
    refused = await hooks.blocked(at, "step_failed" if outcome.status == "failed" else "step_complete", node.id)
    return outcome if refused is None else outcome.but(status="failed", failure=Failure(refused))


async def visit_node(run: RunContext, runtime: Runtime, place: Place, node: Node, number: int) -> NodeOutcome:
    """The node's outcome, recorded or executed; a failed one is an outcome too."""
    state = place.state
    state.set({"internal.node_visit_count": number})
    if not place.path:
        runtime.index += 1
    input = {
        "node": node.id,
        "handler": node.handler,
        "visit": number,
        "place": place.path,
        "attributes": digest({key: as_text(value) for key, value in node.attrs.items()}),
    }
    properties = {
        "node_id": node.id,
        "node_label": node.label,
        "handler_type": node.handler,
        "index": runtime.index if not place.path else None,
        "visit": number,
    }
    try:
        result = await run.step(
            node.id,
            operation_of(node),
            input,
            retry=retry_policy(runtime.graph, node, runtime.dialect),
            properties=properties,
        )
    except StepFailed as error:
        if error.result is None:
            return NodeOutcome("failed", failure=error.failure)
        return outcome_of(error.result).but(failure=error.failure)
    return outcome_of(result)
