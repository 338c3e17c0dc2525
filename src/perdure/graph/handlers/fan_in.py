"""parallel.fan_in: takes what the branches gave. With a prompt an agent names the winner; else they are ranked."""

from __future__ import annotations

import re
from typing import Any

import msgspec

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


def _form(ids: list[str]) -> str:
    """The JSON Schema of an answer that names one branch; only models are held to it."""
    properties = {"best_id": {"enum": ids}, "reason": {"type": "string"}}
    return msgspec.json.encode(
        {"type": "object", "properties": properties, "required": ["best_id"], "additionalProperties": False}
    ).decode()


def named_in(answer: str, ids: list[str]) -> list[str]:
    """Which of the ids an answer names: the value of its `best_id`, or the ids that stand in it as words of their own."""
    try:
        found = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        found = None
    if isinstance(found, dict) and "best_id" in found:
        return [each for each in ids if each == found["best_id"]]
    if answer.strip() in ids:
        return [answer.strip()]
    return [each for each in ids if re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", answer)]


async def _chosen_by_agent(visit: Visit, results: list[dict[str, Any]], good: list[dict[str, Any]]) -> NodeOutcome:
    """An agent names the winner; a name that is none of the branches is a failure, not a guess."""
    from perdure.graph.handlers import agent

    told = "\n\n".join(
        f"Branch {each['id']} ({each['status']}):\n{str(each.get('output') or '')[:4_000]}" for each in results
    )
    prompt = f"{visit.node.attrs['prompt']}\n\n{told}\n\nName the id of the best branch."
    form = {"output_schema": _form([each["id"] for each in good])}
    node = type(visit.node)(
        id=visit.node.id,
        attrs=form | visit.node.attrs | {"prompt": prompt},
        classes=visit.node.classes,
    )
    answered = await agent.run(Visit(visit.op, node, visit.runtime, visit.place, visit.number))
    if not answered.is_good:
        return answered
    wanted = str(answered.context_updates.get("best_id") or answered.preferred_label or answered.response or "")
    named = [each for each in good if each["id"] in named_in(wanted, [each["id"] for each in good])]
    if len(named) != 1:
        which = "none" if not named else "more than one"
        return failed(
            f"The answer of {visit.node.id} names {which} of the branches {', '.join(e['id'] for e in good)}."
        )
    best = named[0]
    head = best.get("head_sha")
    if visit.runtime.git and head:
        input = {"heads": [head], "message": f"{visit.node.id} chose {best['id']}"}
        await visit.op.step("+merge", "graph.merge", input)
    return answered.but(context_updates=answered.context_updates | _updates(best), preferred_label=None)
