"""wait: a timer."""

from perdure.graph.outcome import NodeOutcome, failed
from perdure.graph.runtime import Visit


async def run(visit: Visit) -> NodeOutcome:
    """Waits the node's duration, counted from its first start."""
    duration = visit.node.duration_ms("duration")
    if duration is None:
        return failed(f"Wait node {visit.node.id} has no duration.")
    await visit.op.sleep("timer", duration)
    return NodeOutcome("succeeded", notes=f"waited {duration / 1000:g} s")
