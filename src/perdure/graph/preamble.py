"""What an agent is told of the run so far, by fidelity."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.graph.context import StageRecord, State, visible
from perdure.graph.dialect import Dialect
from perdure.graph.model import Edge, Graph, Node

# Fidelity: how many of the last stages are told, and about how many characters in all (four to a token).
_SUMMARY = {"summary:low": (2, 2_400), "summary:medium": (5, 6_000), "summary:high": (1_000, 12_000)}
_VALUE = 500


def fidelity_of(graph: Graph, node: Node, edge: Edge | None) -> str:
    """How much history the node sees: its edge says, else it, else the graph, else `compact`."""
    return (
        (edge.text("fidelity") if edge else "") or node.text("fidelity") or graph.text("default_fidelity") or "compact"
    )


def thread_of(graph: Graph, node: Node, edge: Edge | None, previous: str | None, dialect: Dialect) -> str:
    """Which conversation a node at full fidelity goes on with."""
    of_edge = edge.text("thread_id") if edge else ""
    of_node = node.text("thread_id")
    named = (of_node or of_edge) if dialect.thread_node_first else (of_edge or of_node)
    first_class = node.classes[0] if node.classes else ""
    return named or graph.text("default_thread") or first_class or previous or node.id


def preamble(state: State, fidelity: str) -> str:
    """The text before the prompt. At full fidelity there is none: the conversation itself is the history."""
    if fidelity == "full" or all(stage.handler == "start" for stage in state.stages):
        return ""
    if fidelity == "truncate":
        return f"Goal: {state.goal}\nRun: {state.context.get('internal.run_id', '')}\n" if state.goal else ""
    last, limit = _SUMMARY.get(fidelity, (1_000, 40_000))
    stages = [stage for stage in state.stages if stage.handler not in ("start", "exit")][-last:]
    parts = [f"Goal: {state.goal}"] if state.goal else []
    parts += ["", "Completed steps:", *(_stage(stage, brief=fidelity != "compact") for stage in stages)]
    if fidelity in ("compact", "summary:high"):
        values = visible(state.context)
        if values:
            parts += ["", "Context:", *(f"- {key}: {_cut(value, _VALUE)}" for key, value in sorted(values.items()))]
    return _cut("\n".join(parts), limit) + "\n"


def _stage(stage: StageRecord, *, brief: bool) -> str:
    text = f"- {stage.label} ({stage.node_id}): {stage.status}"
    if stage.failure:
        text += f"; {_cut(stage.failure, 300)}"
    if stage.notes:
        text += f"; {_cut(stage.notes, 200)}"
    if stage.files_touched:
        text += f"; files: {', '.join(stage.files_touched[:20])}"
    if stage.detail and not brief:
        text += "\n" + _indented(stage.detail)
    return text


def _indented(text: str) -> str:
    lines: Sequence[str] = text.splitlines()[-25:]
    return "\n".join(f"    {line}" for line in lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
