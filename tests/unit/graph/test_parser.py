"""Reading graph files as they are really written, and saying what is wrong in those that cannot be read."""

import pytest

from perdure.graph.diagnostics import Diagnostic
from perdure.graph.parser import parse
from perdure.graph.tree import Duration, NodeStatement, to_json

from .conftest import Load


def complaints(source: str) -> list[Diagnostic]:
    return parse(source)[1]


@pytest.mark.parametrize(
    "text",
    [
        "a [x=1, y=two, z=3]",
        "a [x=1; y=two; z=3]",
        "a [x=1 y=two z=3]",
        "a [x=1\n   y=two\n   z=3\n]",
        "a [x=1][y=two][z=3]",
        "a [x=1,, y=two,; z=3,]",
        'a [x /* one */ = 1, "y" = two, z=3]',
        "a [x=1 // one\n y=two # two\n z=3]",
    ],
)
def test_attributes_may_be_parted_by_anything(text: str) -> None:
    tree, found = parse(f"digraph G {{ {text} }}")

    assert found == []
    assert tree is not None
    assert to_json(tree)["statements"] == [
        {"Node": {"id": "a", "attrs": {"x": {"Int": 1}, "y": {"Ident": "two"}, "z": {"Int": 3}}}}
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("900s", {"Duration": "900s"}),
        ("1.5h", {"Duration": "1.5h"}),
        ("-3", {"Int": -3}),
        ("0.5", {"Float": 0.5}),
        ("TRUE", {"Bool": True}),
        ("gpt-5.1-mini", {"Ident": "gpt-5.1-mini"}),
        ("#ff0000", {"Ident": "#ff0000"}),
        ('"900s"', {"Str": "900s"}),
        ('"a\\nb\\t\\"c\\" \\d"', {"Str": 'a\nb\t"c" \\d'}),
        ('"one \\\ntwo"', {"Str": "one two"}),
        ('"one \\\r\ntwo"', {"Str": "one two"}),
        ('"one " + "two"', {"Str": "one two"}),
        ('"http://x/#y /* z */"', {"Str": "http://x/#y /* z */"}),
    ],
)
def test_a_value_has_the_type_that_it_was_written_with(written: str, value: object) -> None:
    tree, found = parse(f"digraph G {{ a [k={written}] }}")

    assert found == []
    assert tree is not None
    assert to_json(tree)["statements"] == [{"Node": {"id": "a", "attrs": {"k": value}}}]


def test_a_color_does_not_begin_a_comment(load: Load) -> None:
    graph = load("digraph G { a [color=#ff0000, prompt=hi] }").graph

    assert graph is not None
    assert graph.nodes["a"].text("prompt") == "hi"


@pytest.mark.parametrize("before", ["/* { */ ", "// {\n", "# {\n", "\ufeff"])
def test_a_comment_before_the_graph_is_no_part_of_it(before: str, load: Load) -> None:
    assert [each.rule for each in load(f"{before}digraph G {{ a }}").diagnostics if each.rule == "syntax"] == []


def test_ends_of_an_edge_may_be_groups_and_have_ports() -> None:
    tree, found = parse("DIGRAPH G { a:n -> {b c} -> subgraph x { d } }")

    assert found == []
    assert tree is not None
    assert to_json(tree)["statements"] == [{"Edge": {"nodes": ["a", ["b", "c"], "d"], "attrs": {}}}]


@pytest.mark.parametrize(
    ("source", "line", "column", "word"),
    [
        ("strict digraph G { a }", 1, 1, "strict"),
        ("graph G { a }", 1, 1, "undirected"),
        ("digraph G {\n a -- b }", 2, 4, "'--'"),
        ("digraph { a }", 1, 9, "no name"),
        ("digraph G { a }\ndigraph H { b }", 2, 1, "one graph"),
        ("digraph G {\n a [label=<<b>x</b>>] }", 2, 11, "HTML"),
        ("digraph G {\n a [label=<b>x</b>, y=1] }", 2, 11, "HTML"),
        ('digraph G {\n a [prompt=x]\n b [x="y]\n }', 3, 7, "string has no end"),
        ("digraph G { a }\n/* x", 2, 1, "comment has no end"),
        ("digraph G {\n a [bold, x=1] }", 2, 9, "'bold' needs '='"),
        ("digraph G {\n a -> ; b }", 2, 7, "target"),
        ("digraph G {\n a", 2, 3, "'}' is missing"),
        ("", 1, 1, "digraph"),
    ],
)
def test_a_refusal_says_where_and_what(source: str, line: int, column: int, word: str) -> None:
    found = [each for each in complaints(source) if word in each.message]

    assert [(each.line, each.column) for each in found] == [(line, column)]


def test_one_look_shows_every_mistake() -> None:
    found = complaints("digraph G {\n a [bold]\n b [x=]\n c -> \n d [y=1\n e [z=1]\n}")

    assert [each.line for each in found] == [2, 3, 5]


def test_a_mistake_in_a_list_costs_that_attribute_only() -> None:
    tree, _found = parse("digraph G { a [bold, x=1] b [y=1 c [z=1] }")

    assert tree is not None
    nodes = {
        each.id: [one.key for one in each.attributes] for each in tree.statements if isinstance(each, NodeStatement)
    }
    assert nodes == {"a": ["x"], "b": ["y"], "c": ["z"]}


@pytest.mark.parametrize("piece", ["{", "a -> {", "subgraph x { a -> subgraph y {"])
def test_deep_nesting_is_one_complaint_and_no_crash(piece: str) -> None:
    [found] = complaints(f"digraph G {{ {piece * 5000}")

    assert "deeper" in found.message


def test_a_duration_keeps_its_spelling() -> None:
    tree, _found = parse("digraph G { a [timeout=15m] }")

    assert tree is not None
    [statement] = tree.statements
    assert isinstance(statement, NodeStatement)
    assert statement.attributes[0].value == Duration(900_000, "15m")
