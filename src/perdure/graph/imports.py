"""`import="other.fabro"`: another graph in the place of a node.

The imported nodes become `placeholder.node`; the graph's one start and one exit vanish; edges to the placeholder lead to what followed
the start, edges from it leave what led to the exit.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.graph.diagnostics import Diagnostic, error
from perdure.graph.model import Edge, Graph, Node

ALLOWED = frozenset(
    [
        "import",
        "label",
        "shape",
        "class",
        "model",
        "provider",
        "reasoning_effort",
        "speed",
        "backend",
        "fidelity",
        "max_retries",
        "thread_id",
    ]
)
_TARGETS = ("retry_target", "fallback_retry_target")
_BORDER = frozenset({"condition", "weight", "label", "loop_restart", "freeform", "fidelity", "thread_id"})
Load = Callable[[str], "Graph | None"]


def splice(graph: Graph, placeholder: Node, imported: Graph) -> list[Diagnostic]:
    """Put the imported graph in the placeholder's place; what is wrong with it. On an error the graph is not changed."""
    found = _problems(placeholder, imported)
    if found:
        return found
    [start] = imported.by_handler("start")
    [end] = imported.by_handler("exit")
    prefix = placeholder.id
    inherited = {
        key: value for key, value in placeholder.attrs.items() if key in ALLOWED - {"import", "label", "shape", "class"}
    }
    for node in imported.nodes.values():
        if node.id in (start.id, end.id):
            continue
        attrs = inherited | node.attrs
        for target in _TARGETS:
            if target in attrs and str(attrs[target]) in imported.nodes:
                attrs[target] = f"{prefix}.{attrs[target]}"
        new_id = f"{prefix}.{node.id}"
        classes = [*node.classes, *(name for name in [*placeholder.classes, prefix] if name not in node.classes)]
        graph.nodes[new_id] = Node(id=new_id, attrs=attrs, classes=classes, line=placeholder.line)
    graph.edges = _rewired(graph, placeholder, imported, start.id, end.id)
    del graph.nodes[placeholder.id]
    return []


def _rewired(graph: Graph, placeholder: Node, imported: Graph, start: str, end: str) -> list[Edge]:
    prefix = placeholder.id
    entries = [edge.target for edge in imported.outgoing(start)]
    leaving = graph.outgoing(placeholder.id)
    edges: list[Edge] = []
    for edge in graph.edges:
        if edge.source == placeholder.id:
            continue
        if edge.target != placeholder.id:
            edges.append(edge)
            continue
        edges += [
            Edge(source=edge.source, target=f"{prefix}.{entry}", attrs=edge.attrs, line=edge.line) for entry in entries
        ]
    for edge in imported.edges:
        if edge.source == start:
            continue
        if edge.target != end:
            edges.append(
                Edge(
                    source=f"{prefix}.{edge.source}", target=f"{prefix}.{edge.target}", attrs=edge.attrs, line=edge.line
                )
            )
            continue
        for way_out in leaving:
            attrs = edge.attrs | way_out.attrs
            edges.append(Edge(source=f"{prefix}.{edge.source}", target=way_out.target, attrs=attrs, line=way_out.line))
    return edges


def _problems(placeholder: Node, imported: Graph) -> list[Diagnostic]:
    name = placeholder.text("import")
    texts = []
    starts, ends = imported.by_handler("start"), imported.by_handler("exit")
    if len(starts) != 1 or len(ends) != 1:
        texts.append(
            f"the graph {name} needs one start and one exit to be imported; it has {len(starts)} and {len(ends)}."
        )
    else:
        border = [edge for edge in imported.edges if edge.source == starts[0].id or edge.target == ends[0].id]
        if any(_BORDER & edge.attrs.keys() for edge in imported.edges if edge.source == starts[0].id):
            texts.append(f"an edge from the start of {name} has attributes, which would be lost.")
        if any(edge.source == starts[0].id and edge.target == ends[0].id for edge in border):
            texts.append(f"{name} leads from its start straight to its exit.")
    foreign = sorted(placeholder.attrs.keys() - ALLOWED)
    if foreign:
        texts.append(f"a node that imports cannot have {', '.join(foreign)}.")
    return [error("import_error", text, node_id=placeholder.id, line=placeholder.line) for text in texts]
