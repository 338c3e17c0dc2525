"""Whether a run's agents can be asked, found out before anything starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.base.errors import Refused
from perdure.graph.answering import backend_of, model_of
from perdure.llm import MODELS

if TYPE_CHECKING:
    from perdure.disk.home import StateHome
    from perdure.graph.model import Graph, Node
    from perdure.graph.options import Options


_ALLOW = "Pass --allow-unknown-cost to ask it in spite of that, or limit it by --budget-tokens."


def check_agents(graph: Graph, options: Options, home: StateHome | None) -> None:
    """Every agent of the graph has a backend that can answer. Raises `Refused`. Without `home`, keys are not looked for."""
    from perdure.agents.backend import BACKENDS

    if options.backend and options.backend not in BACKENDS:
        raise Refused(f"There is no backend {options.backend!r}.", hint=f"Known: {', '.join(BACKENDS)}.")
    if options.dry_run:
        return
    for node in graph.nodes.values():
        if node.handler in ("agent", "prompt"):
            try:
                _check_agent(graph, node, options, home)
            except Refused as error:
                raise Refused(f"Node {node.id} asks an agent. {error.message}", hint=error.hint) from error
    from perdure.sandbox.environment import resolve_variables

    resolve_variables(options.env, os.environ)


def with_prices(graph: Graph, options: Options) -> Options:
    """The options with the prices that hold now for all models that may answer: neither a changed file nor a newer table changes what
    the run counts later. For a graph whose agents were checked."""
    import msgspec

    names = [
        (backend_of(graph, node, options), model_of(graph, node, options))
        for node in graph.nodes.values()
        if node.handler in ("agent", "prompt")
    ]
    asked = [(name, model) for name, model in names if name in MODELS]
    if options.dry_run or not asked:
        return options
    from perdure.agents.loop.backend import choices
    from perdure.llm.prices import Price, find_price

    own = msgspec.convert(options.prices, dict[str, Price])
    prices = dict(options.prices)
    for each in (choice for name, model in asked for choice in choices(name, model, options.fallbacks)):
        price = find_price(each.backend, each.model, own)
        if price is not None:
            prices[f"{each.backend}/{each.model}"] = msgspec.to_builtins(price)
    return msgspec.structs.replace(options, prices=prices)


def _check_agent(graph: Graph, node: Node, options: Options, home: StateHome | None) -> None:
    from perdure.agents.backend import command_for, find_backend
    from perdure.graph.budgets import budget_of, needs_price
    from perdure.graph.handlers.agent import schema_of

    budget_of(node)
    schema = schema_of(node.text("output_schema"))
    name = backend_of(graph, node, options)
    command = command_for(name, options.backend, options.command)
    if name == "command" and not command and not options.backend:
        raise Refused("Nothing says who answers it.", hint=_ways())
    find_backend(name, command, options.script)
    if needs_price(node, options):
        _check_prices(name, model_of(graph, node, options), options)
    if name not in MODELS:
        return
    from perdure.agents.loop.answers import check_schema
    from perdure.agents.loop.backend import choices
    from perdure.llm.registry import check_model_backend

    if schema is not None:
        check_schema(schema)
    found = choices(name, model_of(graph, node, options), options.fallbacks)
    if home is not None:
        check_model_backend(found[0].backend, base_url=options.base_url, environ=os.environ, home=home)


def _check_prices(name: str, model: str, options: Options) -> None:
    """Under a budget in dollars, what the agent costs can be known. Raises `Refused`."""
    import msgspec

    from perdure.graph.budgets import WITHOUT_COST

    if name in WITHOUT_COST:
        raise Refused(f"There is a budget in dollars, and {name} does not tell what it costs.", hint=_ALLOW)
    if name in MODELS:
        from perdure.agents.loop.backend import choices, unpriced
        from perdure.llm.prices import Price

        prices = msgspec.convert(options.prices, dict[str, Price])
        unknown = unpriced(choices(name, model, options.fallbacks), prices)
        if unknown is not None:
            hint = f"Say it in prices.json of the state home. {_ALLOW}"
            raise Refused(f"There is a budget in dollars, and nobody knows the price of {unknown}.", hint=hint)


def _ways() -> str:
    """How to name a backend, with what is there on this machine first."""
    from perdure.sandbox.command import find_program

    path = os.environ.get("PATH")
    there = [each for program, each in (("claude", "claude-code"), ("codex", "codex")) if find_program(program, path)]
    found = [f"--backend {each}" for each in there]
    return f'Pass {", ".join([*found, "--backend NAME --model MODEL"])}, or --command "PROGRAM ARGS".'
