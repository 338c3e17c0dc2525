"""The way on from a node: the edge, else the retry targets. A failure never slips through a plain edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.graph.edges import Choice, choose_edge

if TYPE_CHECKING:
    from perdure.base.jsonvalue import JSON
    from perdure.graph.model import Attributes, Graph, Node
    from perdure.graph.outcome import NodeOutcome
    from perdure.graph.runtime import Place, Runtime
    from perdure.kernel.context import RunContext

_GOOD = ("succeeded", "partially_succeeded")


async def choose(run: RunContext, runtime: Runtime, place: Place, node: Node, outcome: NodeOutcome) -> Choice | None:
    """The way on; None when there is none."""
    graph = runtime.graph
    is_failure = outcome.status == "failed"
    rule = _on_failure(graph, node) if is_failure else "route"
    if is_failure and rule == "exit":
        return None
    passes = not is_failure or (rule == "succeed" and node.handler != "human")
    share = await run.random() if node.text("selection") == "random" and passes else None
    choice = choose_edge(
        graph.outgoing(node.id),
        place.state.lookup,
        preferred_label=outcome.preferred_label,
        suggested=outcome.suggested_next_ids,
        jump=outcome.jump_to_node if outcome.jump_to_node in graph.nodes else None,
        share=share,
        unconditional=passes,
    )
    if choice is None and is_failure:
        target = retry_target(graph, node)
        return Choice(target, "jump") if target is not None else None
    return choice


def _on_failure(graph: Graph, node: Node) -> str:
    """What a failure without a fail edge does: the node says, else the graph, else it is routed."""
    return str(node.attrs.get("on_failure") or graph.attrs.get("on_failure") or "route")


def retry_target(graph: Graph, node: Node) -> str | None:
    """The first target of the node's and the graph's that is there."""
    holders: list[Attributes] = [node, graph]
    for holder in holders:
        for key in ("retry_target", "fallback_retry_target"):
            target = holder.text(key)
            if target and target in graph.nodes:
                return target
    return None


def unmet_gate(graph: Graph, outcomes: dict[str, str]) -> tuple[Node, str] | None:
    """The first goal gate that did not succeed, and how so."""
    for node in graph.nodes.values():
        if node.flag("goal_gate") and outcomes.get(node.id) not in _GOOD:
            status = outcomes.get(node.id)
            return node, "never ran" if status is None else f"ended {status}"
    return None


def told(node: Node, choice: Choice, outcome: NodeOutcome) -> dict[str, JSON]:
    """The properties of `edge.selected`."""
    properties: dict[str, Any] = {
        "from_node": node.id,
        "to_node": choice.target,
        "reason": choice.reason,
        "step_status": outcome.status,
        "is_jump": choice.reason == "jump",
    }
    if choice.edge is not None and choice.edge.label:
        properties["label"] = choice.edge.label
    if choice.edge is not None and choice.edge.condition:
        properties["condition"] = choice.edge.condition
    return properties
