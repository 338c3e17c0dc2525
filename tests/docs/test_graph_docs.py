"""The pages of the graph language name everything that it has, and their examples are found as they say."""

import re
from pathlib import Path

import pytest

from perdure.graph.attributes import ATTRIBUTES, FIDELITIES
from perdure.graph.dialect import Dialect
from perdure.graph.load import load_graph
from perdure.graph.model import HANDLERS, SHAPES

DOCS = Path(__file__).resolve().parents[2] / "docs"
CHECKS = DOCS.parent / "src" / "perdure" / "graph" / "checks"
LANGUAGE = (DOCS / "reference" / "graph-language.md").read_text(encoding="utf-8")
RULES = (DOCS / "reference" / "lint-rules.md").read_text(encoding="utf-8")
ROWS = [
    (rule, severity, ("flow.dot" if "Only in `.dot`" in meaning else "flow.fabro"), example)
    for rule, severity, meaning, example in re.findall(r"^\| `(\w+)` \| (\w+)(.*)\| `(.+)` \|$", RULES, re.MULTILINE)
]


@pytest.mark.parametrize("name", [*ATTRIBUTES, *SHAPES, *sorted(HANDLERS), *FIDELITIES])
def test_the_language_page_names_it(name: str) -> None:
    assert f"`{name}`".lower() in LANGUAGE.lower()


@pytest.mark.parametrize("field", [name for name in Dialect.__struct_fields__ if name != "name"])
def test_each_difference_of_the_dialects_is_a_row(field: str) -> None:
    assert f"| `{field}` |" in (DOCS / "graph-dialects.md").read_text(encoding="utf-8")


def test_each_rule_of_the_checks_is_a_row() -> None:
    texts = [path.read_text(encoding="utf-8") for path in CHECKS.glob("*.py")]
    named = {name for text in texts for name in re.findall(r'(?:error|warning|make)\(\s*"(\w+)"', text)}

    assert named
    assert named <= {row[0] for row in ROWS}


@pytest.mark.parametrize(("rule", "severity", "name", "example"), ROWS, ids=[row[0] for row in ROWS])
def test_the_example_of_a_rule_is_found_by_it(rule: str, severity: str, name: str, example: str) -> None:
    text = example.replace("\\|", "|")
    if not text.startswith("digraph"):
        declared = "" if re.search(r"(^|; )a( \[|$)", text) else "a [prompt=x];"
        text = f"digraph G {{ start [shape=Mdiamond]; exit [shape=Msquare]; {declared} start -> a -> exit; {text} }}"
        text = text.replace("start -> a -> exit", "start -> a") if "a -> exit [condition" in text else text

    found = load_graph(text, name, lambda _reference, _folder: None, variables={"known": "1"}).diagnostics

    assert (rule, severity) in {(each.rule, each.severity) for each in found}


def test_the_example_of_the_language_has_no_findings() -> None:
    example = re.findall(r"```dot\n(.*?)```", LANGUAGE, re.DOTALL)[0]

    assert load_graph(example, "flow.fabro", lambda _reference, _folder: None).diagnostics == []
