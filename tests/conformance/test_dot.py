"""A corpus of workflow files: what each is read as, and what is found in it.

Beside each file lies the expected reading as JSON. `PERDURE_ACCEPT=1 pytest tests/conformance` writes what is read now; look at
the difference before you keep it.
"""

import json
import os
import shutil
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.graph.draw import to_dot
from perdure.graph.files import DiskFiles
from perdure.graph.load import load_graph
from perdure.graph.model import Edge, Graph, Node

CORPUS = Path(__file__).parent / "dot"
FILES = sorted(path.name for path in CORPUS.iterdir() if path.suffix in (".fabro", ".dot"))
VARIABLES = {"vars.fabro": {"who": "it's $(me)", "model": "m-1"}}
ACCEPT = os.environ.get("PERDURE_ACCEPT") == "1"
# Graphviz knows no durations and dotted keys without quotes, and no files, variables and imports.
NOT_GRAPHVIZ = (
    "manager",
    "import",
    "vars",
    "bad_",
    "old_names",
    "test_fix",
    "plan_approve",
    "wait_",
    "loop_",
    "subgraph_",
    "comments",
)


def _reading(name: str) -> dict[str, Any]:
    # The folder has a fixed name in what is found, wherever the tests lie.
    files = DiskFiles()
    text = (CORPUS / name).read_text(encoding="utf-8")

    def read(reference: str, _folder: str) -> tuple[str, str] | None:
        found = files(reference, str(CORPUS))
        return (found[0], f"dot/{reference}") if found else None

    loaded = load_graph(text, f"dot/{name}", read, variables=VARIABLES.get(name))
    graph = loaded.graph
    nodes = {} if graph is None else {node.id: node.handler for node in graph.nodes.values()}
    return {
        "dialect": loaded.dialect.name,
        "handlers": nodes,
        "graph": None if graph is None else graph.to_json(),
        "diagnostics": [each.text() for each in loaded.diagnostics],
    }


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_expected(name: str) -> None:
    expected = CORPUS / f"{name}.json"
    reading = _reading(name)
    if ACCEPT:
        expected.write_text(json.dumps(reading, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    assert reading == json.loads(expected.read_text(encoding="utf-8"))


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith(NOT_GRAPHVIZ)])
def test_a_file_has_the_nodes_and_edges_that_graphviz_sees(name: str) -> None:
    done = subprocess.run(
        ["dot", "-Tdot_json", str(CORPUS / name)], capture_output=True, encoding="utf-8", check=True, timeout=30
    )
    seen = json.loads(done.stdout)
    names = {each["_gvid"]: each["name"] for each in seen["objects"] if "nodes" not in each}

    graph = _reading(name)["graph"]

    assert set(graph["nodes"]) == set(names.values())
    assert sorted((each["from"], each["to"]) for each in graph["edges"]) == sorted(
        (names[each["tail"]], names[each["head"]]) for each in seen["edges"]
    )


_IDS = st.text(alphabet=string.ascii_letters + "_", min_size=1, max_size=8)
_TEXTS = st.text(
    alphabet=st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from('\n\t"\\{}[];#/$<>'), max_size=30
)


@given(st.dictionaries(_IDS, _TEXTS, min_size=1, max_size=6), st.data())
def test_a_graph_that_was_printed_is_read_as_the_same(prompts: dict[str, str], data: st.DataObject) -> None:
    """Whatever signs ids and texts hold, printing and reading give them back."""
    ends = st.sampled_from(sorted(prompts))
    pairs = data.draw(st.lists(st.tuples(ends, ends, _TEXTS), max_size=6))
    nodes = {name: Node(id=name, attrs={"prompt": f".{text}"}) for name, text in prompts.items()}
    edges = [Edge(source=one, target=two, attrs={"label": text}) for one, two, text in pairs]

    loaded = load_graph(
        to_dot(Graph(name="G", nodes=nodes, edges=edges), across=False), "g.fabro", lambda _reference, _folder: None
    )

    assert [each for each in loaded.diagnostics if each.rule == "syntax"] == []
    assert loaded.graph is not None
    assert {node.id: node.text("prompt") for node in loaded.graph.nodes.values()} == {
        name: f".{text}" for name, text in prompts.items()
    }
    assert [(edge.source, edge.target, edge.label) for edge in loaded.graph.edges] == pairs
