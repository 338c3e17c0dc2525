"""A graph file made ready to run: read, its variables filled in, parsed, files and imports taken in, styled, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from perdure.base.errors import Refused
from perdure.graph import imports
from perdure.graph.build import Builder, mark_routers
from perdure.graph.checks import run_checks
from perdure.graph.diagnostics import Diagnostic, error
from perdure.graph.dialect import Dialect, dialect_of
from perdure.graph.files import Reader
from perdure.graph.lexer import Places
from perdure.graph.model import Graph
from perdure.graph.parser import parse
from perdure.graph.stylesheet import BadStylesheet, apply_stylesheet, parse_stylesheet
from perdure.graph.variables import expand_graph

_FILE_ATTRIBUTES = ("prompt", "goal", "script", "model_stylesheet", "output_schema")


class LoadedGraph(msgspec.Struct, frozen=True):
    """A graph and what was found about it. `graph` is None when the text is no graph at all."""

    path: str
    source: str
    dialect: Dialect
    graph: Graph | None
    diagnostics: list[Diagnostic]

    @property
    def errors(self) -> list[Diagnostic]:
        """What stops a run."""
        return [each for each in self.diagnostics if each.severity == "error"]


class InvalidGraph(Refused):
    """A graph that has errors; `diagnostics` holds every finding."""

    code = "invalid_graph"

    def __init__(self, path: str, diagnostics: list[Diagnostic]) -> None:
        errors = [each for each in diagnostics if each.severity == "error"]
        text = "\n".join(each.text() for each in errors)
        super().__init__(f"{path} cannot be run: {len(errors)} error{'s' * (len(errors) != 1)}.\n{text}")
        self.diagnostics = diagnostics


def load_graph(
    source: str,
    path: str,
    read: Reader,
    *,
    variables: Mapping[str, str] | None = None,
    dialect: str | None = None,
) -> LoadedGraph:
    """The graph of a text; `path` says where it stands and how it is read. Never raises for what the text holds."""
    chosen = dialect_of(path, dialect)
    loaded = _Loader(read, variables or {}, chosen)
    graph = loaded.graph(source, path, ())
    if graph is not None:
        try:
            apply_stylesheet(graph.nodes, parse_stylesheet(graph.text("model_stylesheet")))
        except BadStylesheet:
            pass  # the check of the stylesheet says what is wrong
        mark_routers(graph)
        loaded.found += run_checks(graph, chosen)
    shown = [each if each.file else msgspec.structs.replace(each, file=path) for each in loaded.found]
    return LoadedGraph(path, source, chosen, graph, shown)


class _Loader:
    def __init__(self, read: Reader, variables: Mapping[str, str], dialect: Dialect) -> None:
        self._read = read
        self._variables = variables
        self._dialect = dialect
        self.found: list[Diagnostic] = []

    def graph(self, source: str, path: str, chain: tuple[str, ...]) -> Graph | None:
        """The graph of one text with its files and imports; `chain` names the files that led here."""
        source = source.removeprefix("\ufeff")
        tree, found = parse(source)
        self.found += [msgspec.structs.replace(each, file=path) for each in found]
        if tree is None:
            return None
        builder = Builder(self._dialect, Places(source))
        graph = builder.build(tree)
        unknown = expand_graph(graph, self._variables)
        self.found += [msgspec.structs.replace(each, file=path) for each in [*builder.found, *unknown]]
        folder = os.path.dirname(path) or "."
        self._take_files(graph, folder, path)
        self._take_imports(graph, folder, path, (*chain, path))
        return graph

    def _take_files(self, graph: Graph, folder: str, path: str) -> None:
        for holder in [graph, *graph.nodes.values()]:
            for key in _FILE_ATTRIBUTES:
                value = holder.attrs.get(key)
                if not isinstance(value, str) or not value.startswith("@") or "\n" in value:
                    continue
                found = self._read(value[1:], folder)
                if found is None:
                    node_id = getattr(holder, "id", None)
                    text = f"{key} names the file {value[1:]}, which is not there."
                    self.found.append(error("unresolved_file_ref", text, node_id=node_id, file=path))
                else:
                    holder.attrs[key] = found[0]

    def _take_imports(self, graph: Graph, folder: str, path: str, chain: tuple[str, ...]) -> None:
        for node in [each for each in graph.nodes.values() if each.text("import")]:
            name = node.text("import")
            found = self._read(name, folder)
            if found is None:
                text = f"node {node.id} imports {name}, which is not there."
                self.found.append(error("import_error", text, node_id=node.id, file=path, line=node.line))
                continue
            text, where = found
            if where in chain or os.path.realpath(where) in {os.path.realpath(each) for each in chain}:
                ring = " -> ".join(os.path.basename(each) for each in (*chain, where))
                self.found.append(error("import_error", f"imports go in a ring: {ring}.", node_id=node.id, file=path))
                continue
            imported = self.graph(text, where, chain)
            if imported is not None:
                problems = imports.splice(graph, node, imported)
                self.found += [msgspec.structs.replace(each, file=path) for each in problems]
