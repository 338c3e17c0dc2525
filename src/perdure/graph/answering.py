"""Who answers an agent node, and with which model: what the node, its stylesheet, the graph, the settings and the command line say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.llm import MODELS

if TYPE_CHECKING:
    from perdure.graph.model import Graph, Node
    from perdure.graph.options import Options

# The coding agents that other tools mean by `cli` and a provider.
_PROGRAMS = {"anthropic": "claude-code", "openai": "codex"}
_BY_NAME = (("claude", "anthropic"), ("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"))


def model_of(graph: Graph, node: Node, options: Options) -> str:
    """The model: the node's word (its stylesheet's too), else the command line's or the settings', else the graph's."""
    return node.text("model") or options.model or graph.text("default_model")


def provider_of(graph: Graph, node: Node, options: Options) -> str:
    """The provider by the same rule; when nobody names one, the one that is known to have the model."""
    named = node.text("provider") or options.provider or graph.text("default_provider")
    if named:
        return named.lower()
    model = model_of(graph, node, options)
    return next((provider for start, provider in _BY_NAME if model.startswith(start)), "")


def backend_of(graph: Graph, node: Node, options: Options) -> str:
    """The backend: the command line's word or the settings' holds for the whole run; else the node's; else its provider's adapter.

    Other tools write `api` for the provider's adapter and `cli` for its coding agent.
    """
    named = node.text("backend")
    if options.backend:
        return options.backend
    if named and named not in ("api", "cli"):
        return named
    provider = provider_of(graph, node, options)
    if named == "cli":
        return _PROGRAMS.get(provider, "command")
    return provider if provider in MODELS else "command"
