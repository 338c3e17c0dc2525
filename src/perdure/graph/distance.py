"""How far it is from each node to the end: what decides which of several waiting nodes goes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.graph.model import Graph


def remaining_path(graph: Graph) -> dict[str, int]:
    """The longest way from each node to an end, in edges. A loop counts once: an edge that leads back on the way from the start is
    left out. A pure function of the graph."""
    starts = [node.id for node in graph.nodes.values() if node.handler == "start"]
    found: dict[str, int] = {}
    for node_id in [*starts, *graph.nodes]:
        if node_id not in found:
            _measure(graph, node_id, found)
    return found


def _measure(graph: Graph, root: str, found: dict[str, int]) -> None:
    """Depth first, without recursion: graphs may be thousands of nodes long."""
    open_ways: dict[str, int] = {root: 0}
    stack: list[tuple[str, Iterator[str]]] = [(root, _targets(graph, root))]
    while stack:
        node_id, targets = stack[-1]
        for target in targets:
            if target in found:
                open_ways[node_id] = max(open_ways[node_id], found[target] + 1)
            elif target not in open_ways:
                open_ways[target] = 0
                stack.append((target, _targets(graph, target)))
                break
        else:
            stack.pop()
            found[node_id] = open_ways.pop(node_id)
            if stack:
                above = stack[-1][0]
                open_ways[above] = max(open_ways[above], found[node_id] + 1)


def _targets(graph: Graph, node_id: str) -> Iterator[str]:
    return iter([edge.target for edge in graph.outgoing(node_id)])
