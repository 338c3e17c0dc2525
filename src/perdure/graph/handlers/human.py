"""human: a question to a person; the answer is the edge that is taken. Silence and aborts never are consent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.graph.edges import normalised, split_label
from perdure.graph.outcome import NodeOutcome, failed, try_again
from perdure.graph.runtime import Visit
from perdure.graph.variables import expand_goal
from perdure.kernel.question import Answer, Option, Question

if TYPE_CHECKING:
    from perdure.graph.model import Edge, Graph, Node

_TYPES = {
    "yesno": "yes_no",
    "yes_no": "yes_no",
    "confirmation": "confirmation",
    "multiplechoice": "multiple_choice",
    "multiple_choice": "multiple_choice",
    "multiselect": "multi_select",
    "multi_select": "multi_select",
    "freeform": "freeform",
}


async def run(visit: Visit) -> NodeOutcome:
    """Asks with the outgoing edges as choices, and prefers the one that was chosen."""
    node, graph = visit.node, visit.runtime.graph
    edges = graph.outgoing(node.id)
    question = question_of(graph, node, visit.place.state.goal, str(visit.place.state.context.get("last_response", "")))
    if visit.runtime.options.auto_approve:
        answer = automatic(question)
        visit.op.emit("interview.automatic", {"question": question.text, "answer": answer.selected or answer.text})
    else:
        answer = await visit.op.ask("answer", question)
    return outcome_of_answer(node, edges, question, answer)


def question_of(graph: Graph, node: Node, goal: str, shown: str) -> Question:
    """The question that a gate asks."""
    edges = graph.outgoing(node.id)
    choices = [edge for edge in edges if not edge.flag("freeform")]
    allow_freeform = len(choices) < len(edges)
    named = _TYPES.get(node.text("question_type").lower().replace("-", "_"))
    kind = named or ("freeform" if not choices else "multiple_choice")
    default = _find_choice(choices, node.text("human.default_choice"))
    return Question(
        text=expand_goal(node.text("prompt") or node.label, goal),
        type=kind,  # type: ignore[arg-type]
        options=options_of(choices) if kind not in ("freeform", "yes_no", "confirmation") or choices else [],
        allow_freeform=allow_freeform,
        default=_key(choices, default) if default is not None else None,
        timeout_ms=node.duration_ms("timeout"),
        context=shown or None,
        metadata={"node_id": node.id},
    )


def options_of(choices: list[Edge]) -> list[Option]:
    """An option an edge, each with a key of its own."""
    options: list[Option] = []
    taken: set[str] = set()
    for edge in choices:
        key, text = split_label(edge.label or edge.target)
        number = 2
        wanted = key
        while key.lower() in taken:
            key = f"{wanted}{number}"
            number += 1
        taken.add(key.lower())
        options.append(Option(key, text))
    return options


def automatic(question: Question) -> Answer:
    """The answer when everything is approved unasked: yes, or the first choice."""
    if question.options:
        return Answer("selected", [question.options[0].key], by="auto")
    if question.type in ("yes_no", "confirmation"):
        return Answer("yes", by="auto")
    return Answer("text", text="auto-approved", by="auto")


def outcome_of_answer(node: Node, edges: list[Edge], question: Question, answer: Answer) -> NodeOutcome:
    """Where an answer leads. Nobody's answer without a default is tried again; an abort or a skip is a failure."""
    if answer.kind == "timeout":
        return try_again(f"Nobody answered gate {node.id} in time.")
    if not answer.is_consent:
        return failed(f"Gate {node.id} was {answer.kind}, not answered.", "canceled")
    choices = [edge for edge in edges if not edge.flag("freeform")]
    edge = _edge_of(choices, edges, question, answer)
    if edge is None:
        return failed(f"The answer {answer.text or answer.selected!r} is no choice of gate {node.id}.")
    label = edge.label or edge.target
    updates = {"human.gate.selected": _key(choices, edge) if edge in choices else "", "human.gate.label": label}
    if answer.text:
        updates["human.gate.text"] = answer.text
    notes = (
        f"answered by {answer.by}"
        if answer.by != "default"
        else "nobody answered in time; the declared default was taken"
    )
    return NodeOutcome(
        "succeeded",
        preferred_label=edge.label or None,
        suggested_next_ids=[edge.target],
        context_updates=updates | {"last_stage": node.id},
        notes=notes,
    )


def _edge_of(choices: list[Edge], edges: list[Edge], question: Question, answer: Answer) -> Edge | None:
    if answer.kind in ("selected", "multi_selected") and answer.selected:
        keys = [option.key.lower() for option in question.options]
        chosen = answer.selected[0].lower()
        return choices[keys.index(chosen)] if chosen in keys and len(keys) == len(choices) else None
    if answer.kind in ("yes", "no"):
        found = _find_choice(choices, answer.kind)
        return found or (edges[0] if answer.kind == "yes" and edges else edges[1] if len(edges) > 1 else None)
    found = _find_choice(choices, answer.text or "")
    if found is not None:
        return found
    free = [edge for edge in edges if edge.flag("freeform")]
    return free[0] if free else None


def _find_choice(choices: list[Edge], text: str) -> Edge | None:
    """The edge that a key, a label or a target names."""
    wanted = text.strip().lower()
    if not wanted:
        return None
    for edge, option in zip(choices, options_of(choices), strict=True):
        if wanted in (
            option.key.lower(),
            normalised(edge.label or edge.target),
            edge.label.lower(),
            edge.target.lower(),
        ):
            return edge
    return None


def _key(choices: list[Edge], edge: Edge) -> str:
    return options_of(choices)[choices.index(edge)].key
