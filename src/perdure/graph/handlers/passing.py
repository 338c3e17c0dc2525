"""start, exit, conditional: nothing is done; the edges decide."""

from perdure.graph.outcome import NodeOutcome
from perdure.graph.runtime import Visit


async def run(visit: Visit) -> NodeOutcome:
    """A success. A conditional node keeps the outcome that its edges ask for."""
    if visit.node.handler == "conditional":
        before = visit.place.state.context
        return NodeOutcome(
            "succeeded",
            preferred_label=before.get("preferred_label") or None,
            notes="routes by its edges",
        )
    return NodeOutcome("succeeded")
