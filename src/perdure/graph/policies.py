"""How often a node is tried, and how long is waited between."""

from perdure.graph.dialect import Dialect
from perdure.graph.model import Graph, Node
from perdure.kernel.retry import Retry

_PRESETS = {
    "none": Retry(1),
    "standard": Retry(5, initial_ms=5_000, factor=2),
    "aggressive": Retry(5, initial_ms=500, factor=2),
    "linear": Retry(3, initial_ms=500, factor=1),
    "patient": Retry(3, initial_ms=2_000, factor=3),
}


def retry_policy(graph: Graph, node: Node, dialect: Dialect) -> Retry:
    """The node's named policy, else its own `max_retries`, else the graph's `default_max_retries` (0)."""
    preset = _PRESETS.get(node.text("retry_policy"))
    if preset is not None:
        return preset
    retries = node.integer("max_retries")
    if retries is None:
        retries = graph.integer("default_max_retries") or 0
    return Retry(max(0, retries) + 1, initial_ms=dialect.backoff_ms)
