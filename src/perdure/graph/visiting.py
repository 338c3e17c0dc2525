"""One visit of a node as one step of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.base.jsonvalue import digest
from perdure.graph.model import as_text
from perdure.graph.node import operation_of
from perdure.graph.outcome import NodeOutcome, outcome_of
from perdure.graph.policies import retry_policy
from perdure.kernel.operation import StepFailed

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.runtime import Place, Runtime
    from perdure.kernel.context import RunContext


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
