"""Dry runs: every node succeeds at once and nothing is started, so the way through a graph can be seen for free."""

from __future__ import annotations

from typing import Any

from perdure.graph.handlers import fan_in, human, parallel, passing
from perdure.graph.outcome import NodeOutcome
from perdure.graph.runtime import Visit


async def simulate(visit: Visit) -> NodeOutcome:
    """The simulated outcome of a node."""
    node = visit.node
    if node.handler in ("agent", "prompt"):
        text = f"[Simulated] {node.label}"
        visit.op.emit("step.prompt", {"node_id": node.id, "text": node.text("prompt") or node.label}, again=True)
        updates: dict[str, Any] = {f"response.{node.id}": text, "last_response": text, "last_stage": node.id}
        return NodeOutcome("succeeded", context_updates=updates, response=text)
    if node.handler == "command":
        updates = {"command.output": "", "command.stderr": "", "tool.output": "", "last_stage": node.id}
        return NodeOutcome("succeeded", context_updates=updates, notes="[Simulated] not run")
    if node.handler == "human":
        edges = visit.runtime.graph.outgoing(node.id)
        question = human.question_of(visit.runtime.graph, node, visit.place.state.goal, "")
        return human.outcome_of_answer(node, edges, question, human.automatic(question))
    if node.handler == "parallel":
        return await parallel.run(visit)
    if node.handler == "parallel.fan_in" and not node.text("prompt"):
        return await fan_in.run(visit)
    if node.handler in ("start", "exit", "conditional"):
        return await passing.run(visit)
    return NodeOutcome("succeeded", notes="[Simulated]")
