"""Graphs out of texts, without a disk."""

from collections.abc import Callable, Mapping

import pytest

from perdure.graph.load import LoadedGraph, load_graph

FRAME = "digraph G {{ start [shape=Mdiamond]; exit [shape=Msquare]\n{} }}"
Load = Callable[..., LoadedGraph]


@pytest.fixture
def load() -> Load:
    """Loads a whole text; `files` are the texts of files beside it."""

    def loaded(
        source: str,
        *,
        path: str = "work/flow.fabro",
        files: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> LoadedGraph:
        given = files or {}

        def read(reference: str, folder: str) -> tuple[str, str] | None:
            return (given[reference], f"{folder}/{reference}") if reference in given else None

        return load_graph(source, path, read, variables=variables)

    return loaded


@pytest.fixture
def body(load: Load) -> Load:
    """Loads the inside of a graph that has a start and an exit already."""

    def loaded(text: str, **more: object) -> LoadedGraph:
        return load(FRAME.format(text), **more)

    return loaded
