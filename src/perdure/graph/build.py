"""Tree to graph: defaults, subgraphs and chains resolved, older names rewritten."""

from __future__ import annotations

from perdure.graph.diagnostics import Diagnostic, error, warning
from perdure.graph.dialect import Dialect
from perdure.graph.lexer import Places
from perdure.graph.model import Edge, Graph, Node, Plain, plain
from perdure.graph.names import renamed
from perdure.graph.tree import (
    Attribute,
    Defaults,
    EdgeStatement,
    GraphAttributes,
    NodeStatement,
    Statement,
    Subgraph,
    Tree,
)

_BORDERS = (("start", "Mdiamond", ("start", "Start")), ("exit", "Msquare", ("exit", "Exit", "end", "End")))


class _Scope:
    """Defaults and classes that hold inside a group."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self.node: dict[str, Plain] = dict(outer.node) if outer else {}
        self.edge: dict[str, Plain] = dict(outer.edge) if outer else {}
        self.classes: list[str] = list(outer.classes) if outer else []


class Builder:
    """Makes one graph of one tree."""

    def __init__(self, dialect: Dialect, places: Places) -> None:
        self.graph = Graph()
        self.found: list[Diagnostic] = []
        self._dialect = dialect
        self._places = places
        self._declared: set[str] = set()

    def build(self, tree: Tree) -> Graph:
        """The graph; findings are in `found`."""
        self.graph.name = tree.name
        self._group(tree.statements, _Scope(), is_root=True)
        for edge in self.graph.edges:
            for end in (edge.source, edge.target):
                if end not in self._declared:
                    self._undeclared(edge, end)
        settle_borders(self.graph)
        return self.graph

    def _group(self, statements: list[Statement], scope: _Scope, *, is_root: bool = False) -> None:
        label = None if is_root else _label(statements)
        if label:
            scope.classes.append(class_of(label))
        for statement in statements:
            if isinstance(statement, GraphAttributes):
                if is_root:
                    self.graph.attrs.update(self._read(statement.attributes, "graph"))
            elif isinstance(statement, Defaults):
                into = scope.node if statement.of == "node" else scope.edge
                into.update(self._read(statement.attributes, statement.of))
            elif isinstance(statement, NodeStatement):
                self._node(statement, scope)
            elif isinstance(statement, EdgeStatement):
                self._edges(statement, scope)
            elif isinstance(statement, Subgraph):
                self._group(statement.statements, _Scope(scope))

    def _node(self, statement: NodeStatement, scope: _Scope) -> None:
        self._declared.add(statement.id)
        given = self._read(statement.attributes, "node")
        node = self.graph.nodes.get(statement.id)
        if node is None:
            line, _column = self._places.line_column(statement.offset)
            node = Node(id=statement.id, attrs=dict(scope.node), classes=[], line=line)
            self.graph.nodes[statement.id] = node
        node.attrs.update(given)
        for name in [*scope.classes, *_words(given.get("class"))]:
            if name not in node.classes:
                node.classes.append(name)

    def _edges(self, statement: EdgeStatement, scope: _Scope) -> None:
        given = scope.edge | self._read(statement.attributes, "edge")
        line, _column = self._places.line_column(statement.offset)
        for sources, targets in zip(statement.ends, statement.ends[1:], strict=False):
            for source in sources:
                for target in targets:
                    self.graph.edges.append(Edge(source=source, target=target, attrs=dict(given), line=line))

    def _undeclared(self, edge: Edge, end: str) -> None:
        self._declared.add(end)
        make = error if self._dialect.implicit_nodes == "error" else warning
        known = ", ".join(sorted(self.graph.nodes)[:8])
        self.found.append(
            make(
                "edge_target_exists",
                f"the edge {edge.source} -> {edge.target} names {end!r}, which no statement declares.",
                edge=(edge.source, edge.target),
                fix=f"Declare it, or use one of: {known}." if known else None,
                line=edge.line,
            )
        )

    def _read(self, attributes: list[Attribute], place: str) -> dict[str, Plain]:
        values: dict[str, Plain] = {}
        for attribute in attributes:
            key, value = renamed(attribute.key, plain(attribute.value), place)
            values[key] = value
        return values


def settle_borders(graph: Graph) -> None:
    """Without a start by its shape or type, the node named `start` is it, whatever shape it took from defaults; so the exit."""
    for handler, shape, names in _BORDERS:
        if graph.by_handler(handler):
            continue
        for name in names:
            node = graph.nodes.get(name)
            if node is not None and not node.text("type"):
                node.attrs["shape"] = shape
                break


def mark_routers(graph: Graph) -> None:
    """Say of each edge whether its target only routes: a conditional node with a conditional way out."""
    routers = {
        node.id for node in graph.by_handler("conditional") if any(edge.condition for edge in graph.outgoing(node.id))
    }
    for edge in graph.edges:
        edge.leads_to_router = edge.target in routers


def _label(statements: list[Statement]) -> str | None:
    """The label that a subgraph gives itself."""
    for statement in statements:
        if isinstance(statement, GraphAttributes):
            for attribute in statement.attributes:
                if attribute.key == "label":
                    return str(plain(attribute.value))
    return None


def class_of(label: str) -> str:
    """A label as a class: lower case, spaces to dashes, other signs left out."""
    text = "-".join(label.lower().split())
    return "".join(sign for sign in text if sign.isalnum() or sign in "-_")


def _words(value: Plain | None) -> list[str]:
    return str(value).replace(",", " ").split() if value is not None else []
