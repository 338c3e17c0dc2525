"""What an edit of a workflow file changes in what it means."""

import pytest

from perdure.graph.definition import differences

from .conftest import Load

BEFORE = 'digraph G { start [shape=Mdiamond] exit [shape=Msquare] a [prompt="do it"] start -> a -> exit }'


def changed(load: Load, old: str, new: str) -> list[str]:
    assert old in BEFORE
    before, after = load(BEFORE).graph, load(BEFORE.replace(old, new)).graph
    assert before is not None
    assert after is not None
    return differences(before, after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("digraph G {", "digraph G { rankdir=LR; bgcolor=white;"),
        ("digraph G {", "digraph G { node [fontname=Arial, style=filled]"),
        ('a [prompt="do it"]', 'a [prompt="do it", color=red, penwidth=2]'),
        ("start -> a -> exit", "start -> a [color=blue]; a -> exit"),
        ("start -> a", "// a comment\n  start -> a"),
    ],
)
def test_how_a_graph_is_drawn_or_written_is_no_difference(load: Load, old: str, new: str) -> None:
    assert changed(load, old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("do it", "do more", "~ node a: prompt 'do it' -> 'do more'"),
        ("a [", "b [prompt=x] a [", "+ node b"),
        ("digraph G {", "digraph G { goal=other;", "~ graph: goal"),
    ],
)
def test_what_a_run_would_do_otherwise_is_told(load: Load, old: str, new: str, told: str) -> None:
    assert changed(load, old, new) == [told]
