"""The retrospective of a run: figures and what they show, without any model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.graph.context import StageRecord
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import RunContext
    from perdure.kernel.outcome import Outcome


def tell(run: RunContext, runtime: Runtime, outcome: Outcome) -> None:
    """Add the retrospective to the log."""
    run.emit("retro.started", {})
    run.emit("retro.completed", {"retro": retrospective(runtime.state.stages, runtime.options.goal, outcome)})


def retrospective(stages: list[StageRecord], goal: str, outcome: Outcome) -> dict[str, Any]:
    """`retro.json`: the narrative fields are null, as no model told it."""
    shown = [stage for stage in stages if stage.handler not in ("start", "exit")]
    failed = [stage for stage in shown if stage.status == "failed"]
    files = sorted({name for stage in shown for name in stage.files_touched})
    return {
        "smoothness_rating": _smoothness(shown, outcome),
        "intent": goal or None,
        "outcome": outcome.status,
        "narrative": None,
        "learnings": [],
        "friction_points": _friction(shown),
        "open_items": [{"kind": "failure", "description": outcome.failure.message}] if outcome.failure else [],
        "stages": [
            {
                "stage_id": stage.node_id,
                "step": stage.step,
                "stage_label": stage.label,
                "status": stage.status,
                "duration_ms": stage.duration_ms,
                "retries": stage.retries,
            }
            for stage in shown
        ],
        "stats": {
            "total_duration_ms": sum(stage.duration_ms for stage in shown),
            "total_retries": sum(stage.retries for stage in shown),
            "files_touched": files,
            "stages_completed": len(shown) - len(failed),
            "stages_failed": len(failed),
        },
    }


def _smoothness(stages: list[StageRecord], outcome: Outcome) -> str:
    """One word: by the share of visits that failed, were tried again or came again."""
    if not outcome.is_good:
        return "failed"
    repeats = len(stages) - len({stage.node_id for stage in stages})
    trouble = repeats + sum(1 for stage in stages if stage.status == "failed" or stage.retries)
    if trouble == 0:
        return "effortless"
    share = trouble / max(1, len(stages))
    return "smooth" if share <= 0.2 else "bumpy" if share <= 0.6 else "struggled"


def _friction(stages: list[StageRecord]) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    for stage in stages:
        if stage.status == "failed":
            points.append({"kind": "failure", "description": stage.failure or "it failed", "stage_id": stage.node_id})
        elif stage.retries:
            points.append({"kind": "retry", "description": f"{stage.retries} retries", "stage_id": stage.node_id})
    visits: dict[str, int] = {}
    for stage in stages:
        visits[stage.node_id] = visits.get(stage.node_id, 0) + 1
    points += [
        {"kind": "loop", "description": f"visited {count} times", "stage_id": node_id}
        for node_id, count in visits.items()
        if count > 1
    ]
    return points
