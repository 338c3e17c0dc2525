"""parallel.fan_in: takes what the branches gave. With a prompt an agent names the winner; else they are ranked."""

from __future__ import annotations

from typing import Any

from perdure.graph.outcome import NodeOutcome, failed
from perdure.graph.runtime import Visit

_RANK = {"succeeded": 0, "partially_succeeded": 1, "retry": 2, "failed": 3, "skipped": 4}


async def run(visit: Visit) -> NodeOutcome:
    """Sets `parallel.fan_in.best_id`, `best_outcome`, `best_head_sha`, and `parallel.outputs` in the branches' order."""
    node, context = visit.node, visit.place.state.context
    results = context.get("parallel.results")
    if not isinstance(results, list) or not results:
        return failed(f"Fan-in {node.id} has no results of branches.", "structural")
    good = [each for each in results if each["status"] in ("succeeded", "partially_succeeded")]
    if not good:
        reasons = "; ".join(f"{each['id']}: {each.get('failure') or each['status']}" for each in results)
        return failed(f"All branches failed before {node.id}: {reasons}", context_updates=_updates(results[0]))
    if not node.text("prompt"):
        best = ranked(results)[0]
        partial = len(good) < len(results)
        return NodeOutcome(
            "partially_succeeded" if partial and not node.flag("allow_partial") else "succeeded",
            context_updates=_updates(best) | {"last_stage": node.id},
            notes=f"{len(good)} of {len(results)} branches succeeded; best: {best['id']}",
        )
    return await _chosen_by_agent(visit, results, good)


def ranked(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Best first: by status, then by score, then by id."""
    return sorted(results, key=lambda each: (_RANK.get(each["status"], 9), -float(each.get("score") or 0), each["id"]))


def _updates(best: dict[str, Any]) -> dict[str, Any]:
    return {
        "parallel.fan_in.best_id": best["id"],
        "parallel.fan_in.best_outcome": best["status"],
        "parallel.fan_in.best_head_sha": best.get("head_sha") or "",
    }


async def _chosen_by_agent(visit: Visit, results: list[dict[str, Any]], good: list[dict[str, Any]]) -> NodeOutcome:
    """An agent names the winner; a name that is none of the branches is a failure, not a guess."""
    from perdure.graph.handlers import agent

    told = "\n\n".join(
        f"Branch {each['id']} ({each['status']}):\n{str(each.get('output') or '')[:4_000]}" for each in results
    )
    original = visit.node.attrs["prompt"]
    node = type(visit.node)(
        id=visit.node.id,
        attrs=visit.node.attrs | {"prompt": f"{original}\n\n{told}\n\nName the id of the best branch."},
        classes=visit.node.classes,
    )
    answered = await agent.run(Visit(visit.op, node, visit.runtime, visit.place, visit.number))
    if not answered.is_good:
        return answered
    wanted = str(answered.context_updates.get("best_id") or answered.preferred_label or answered.response or "")
    best = next((each for each in good if each["id"] == wanted.strip()), None)
    best = best or next((each for each in good if each["id"] in wanted), None)
    if best is None:
        return failed(f"The answer of {visit.node.id} names none of the branches {', '.join(e['id'] for e in good)}.")
    head = best.get("head_sha")
    if visit.runtime.git and head:
        input = {"heads": [head], "message": f"{visit.node.id} chose {best['id']}"}
        await visit.op.step("+merge", "graph.merge", input)
    return answered.but(context_updates=answered.context_updates | _updates(best), preferred_label=None)
