"""Who answers an agent node, and with which model."""

import pytest

from perdure.graph.answering import backend_of, model_of, provider_of
from perdure.graph.load import load_graph
from perdure.graph.model import Graph
from perdure.graph.options import Options


def graph(attributes: str, graph_attributes: str = "") -> Graph:
    source = f"digraph g {{ {graph_attributes} start [shape=Mdiamond] exit [shape=Msquare] a [prompt=p{attributes}] start -> a -> exit }}"
    loaded = load_graph(source, "g.fabro", lambda *_: None)
    assert loaded.graph is not None
    return loaded.graph


@pytest.mark.parametrize(
    ("attributes", "options", "backend"),
    [
        ("", Options(), "command"),
        ("", Options(backend="scripted"), "scripted"),
        (", backend=codex", Options(), "codex"),
        (", backend=codex", Options(backend="scripted"), "scripted"),
        (", provider=anthropic", Options(), "anthropic"),
        (", provider=OpenAI", Options(), "openai"),
        (", provider=gemini", Options(), "command"),
        (", backend=api, provider=anthropic", Options(), "anthropic"),
        (", backend=cli, provider=anthropic", Options(), "claude-code"),
        (", backend=cli, provider=openai", Options(), "codex"),
        (", backend=cli", Options(), "command"),
        (', model="claude-sonnet-4-5"', Options(), "anthropic"),
        (', model="gpt-5"', Options(), "openai"),
        (', model="gpt-5", provider=anthropic', Options(), "anthropic"),
        ("", Options(model="gpt-5"), "openai"),
        ("", Options(provider="anthropic"), "anthropic"),
        (", provider=anthropic", Options(backend="command", command=["agent"]), "command"),
    ],
)
def test_the_nearest_word_says_who_answers(attributes: str, options: Options, backend: str) -> None:
    found = graph(attributes)

    assert backend_of(found, found.nodes["a"], options) == backend


def test_the_nearest_word_says_which_model() -> None:
    plain, own = graph("", "graph [default_model=m1]"), graph(", model=m3", "graph [default_model=m1]")

    assert model_of(plain, plain.nodes["a"], Options()) == "m1"
    assert model_of(plain, plain.nodes["a"], Options(model="m2")) == "m2"
    assert model_of(own, own.nodes["a"], Options(model="m2")) == "m3"


def test_a_stylesheet_picks_models_and_providers() -> None:
    styled = graph(
        ", class=careful",
        'graph [model_stylesheet="* { model: gpt-5; } .careful { model: claude-opus-4-5; provider: anthropic; }"]',
    )

    assert model_of(styled, styled.nodes["a"], Options()) == "claude-opus-4-5"
    assert provider_of(styled, styled.nodes["a"], Options()) == "anthropic"
