"""A graph as something that can be run: all that it needs is recorded with the run, so it never reads the person's files again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.graph.dialect import Dialect, dialect_of
from perdure.graph.files import recorded_reader
from perdure.graph.load import InvalidGraph, load_graph
from perdure.graph.model import has_meaning
from perdure.graph.options import Options

if TYPE_CHECKING:
    from perdure.graph.model import Graph
    from perdure.kernel.context import RunContext
    from perdure.kernel.outcome import Outcome


class GraphDefinition:
    """A checked graph with the options of its run."""

    kind = "graph"

    def __init__(
        self, graph: Graph, source: str, path: str, dialect: Dialect, files: dict[str, str], options: Options
    ) -> None:
        self.graph = graph
        self.name = graph.name
        self.source = source
        self.path = path
        self.dialect = dialect
        self.files = files
        self.options = options

    def body(self) -> dict[str, JSON]:
        return {
            "source": self.source,
            "path": self.path,
            "dialect": self.dialect.name,
            "files": dict(self.files),
            "options": msgspec.to_builtins(self.options),
        }

    def start_properties(self, run_id: str) -> dict[str, JSON]:
        """The commit that the run begins at, and whether it can work in a worktree."""
        from perdure.graph.workspace import start_facts

        return {"goal": self.options.goal} | start_facts(self.options, run_id)

    async def interpret(self, run: RunContext) -> Outcome:
        from perdure.graph.interpreter import interpret

        return await interpret(self, run)


def load(body: dict[str, Any]) -> GraphDefinition:
    """The definition that a run recorded. Raises `InvalidGraph` when this version finds errors in it."""
    options = msgspec.convert(body.get("options") or {}, Options)
    files = dict(body.get("files") or {})
    path = str(body.get("path") or "workflow.fabro")
    dialect = dialect_of(path, body.get("dialect"))
    found = load_graph(
        str(body["source"]), path, recorded_reader(files), variables=options.variables, dialect=dialect.name
    )
    if found.graph is None or found.errors:
        raise InvalidGraph(path, found.diagnostics)
    return GraphDefinition(found.graph, str(body["source"]), path, dialect, files, options)


def differences(before: Graph, after: Graph) -> list[str]:
    """What an edit changed in what the graph means; nothing for comments and white space."""
    if before.digest() == after.digest():
        return []
    texts = [f"- node {name}" for name in before.nodes if name not in after.nodes]
    texts += [f"+ node {name}" for name in after.nodes if name not in before.nodes]
    for name in before.nodes.keys() & after.nodes.keys():
        old, new = before.nodes[name].attrs, after.nodes[name].attrs
        texts += [
            f"~ node {name}: {key} {_short(old.get(key))} -> {_short(new.get(key))}"
            for key in sorted(old.keys() | new.keys())
            if has_meaning(key) and old.get(key) != new.get(key)
        ]
    old_edges = [(edge.source, edge.target, edge.label, edge.condition, edge.weight) for edge in before.edges]
    new_edges = [(edge.source, edge.target, edge.label, edge.condition, edge.weight) for edge in after.edges]
    texts += [
        f"- edge {edge[0]} -> {edge[1]} {edge[3] or edge[2]}".rstrip() for edge in old_edges if edge not in new_edges
    ]
    texts += [
        f"+ edge {edge[0]} -> {edge[1]} {edge[3] or edge[2]}".rstrip() for edge in new_edges if edge not in old_edges
    ]
    texts += [
        f"~ graph: {key}"
        for key in sorted(before.attrs.keys() | after.attrs.keys())
        if has_meaning(key) and before.attrs.get(key) != after.attrs.get(key)
    ]
    return texts or ["~ the graph"]


def _short(value: object) -> str:
    text = "nothing" if value is None else repr(value if isinstance(value, (str, int, float, bool)) else str(value))
    return text if len(text) <= 60 else f"{text[:59]}…"
