"""The retrospective of a run: figures and what they show, without any model.

How smooth a run was is one word, by the share of its visits that failed, were tried again or were repeated: `effortless` (none),
`smooth` (up to a fifth), `bumpy` (up to three fifths), `struggled` (more); `failed` when the run's own answer is no. What branches
did counts too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.graph.context import StageRecord
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import RunContext
    from perdure.kernel.outcome import Outcome

_SMOOTH, _BUMPY = 0.2, 0.6


def tell(run: RunContext, runtime: Runtime, outcome: Outcome) -> None:
    """Add the retrospective to the log."""
    run.emit("retro.started", {})
    stages = [*runtime.state.stages, *runtime.state.branches]
    told = retrospective(stages, runtime.options.goal, outcome)
    used = runtime.spent.total(run)
    if used:
        told["stats"]["usage"] = used
    run.emit("retro.completed", {"retro": told})


def retrospective(stages: list[StageRecord], goal: str, outcome: Outcome) -> dict[str, Any]:
    """`retro.json`: the narrative fields are null, as no model told it."""
    shown = [stage for stage in stages if stage.handler not in ("start", "exit")]
    return {
        "smoothness_rating": smoothness(shown, is_good=outcome.is_good),
        "intent": goal or None,
        "outcome": outcome.status,
        "narrative": None,
        "learnings": _learnings(shown),
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
        "stats": _stats(shown),
    }


def _stats(stages: list[StageRecord]) -> dict[str, Any]:
    """The figures. A branch's time is a part of its parallel node's, so it is not added again."""
    failed = sum(1 for stage in stages if stage.status == "failed")
    stats: dict[str, Any] = {
        "total_duration_ms": sum(stage.duration_ms for stage in stages if stage.handler != "branch"),
        "total_retries": sum(stage.retries for stage in stages),
        "files_touched": sorted({name for stage in stages for name in stage.files_touched}),
        "stages_completed": len(stages) - failed,
        "stages_failed": failed,
    }
    costs = [stage.cost for stage in stages if stage.cost is not None]
    if costs:
        stats["total_cost"] = sum(costs)
    return stats


def smoothness(stages: list[StageRecord], *, is_good: bool) -> str:
    """One word for how the run went."""
    if not is_good:
        return "failed"
    repeats = sum(count - 1 for count in _visits(stages).values())
    trouble = repeats + sum(1 for stage in stages if stage.status == "failed" or stage.retries)
    if trouble == 0:
        return "effortless"
    share = trouble / len(stages)
    return "smooth" if share <= _SMOOTH else "bumpy" if share <= _BUMPY else "struggled"


def _visits(stages: list[StageRecord]) -> dict[str, int]:
    """How often each node was visited."""
    visits: dict[str, int] = {}
    for stage in stages:
        visits[stage.node_id] = visits.get(stage.node_id, 0) + 1
    return visits


def _friction(stages: list[StageRecord]) -> list[dict[str, Any]]:
    """Where it went wrong: each failure, each visit that needed retries, each node that came again."""
    points: list[dict[str, Any]] = []
    for stage in stages:
        if stage.status == "failed":
            points.append({"kind": "failure", "description": stage.failure or "it failed", "stage_id": stage.node_id})
        elif stage.retries:
            points.append({"kind": "retry", "description": _times(stage.retries, "retry"), "stage_id": stage.node_id})
    points += [
        {"kind": "loop", "description": f"visited {count} times", "stage_id": node_id}
        for node_id, count in _visits(stages).items()
        if count > 1
    ]
    return points


def _learnings(stages: list[StageRecord]) -> list[dict[str, str]]:
    """What the figures alone can teach: what mended itself, and how much work that took."""
    learnings: list[dict[str, str]] = []
    for node_id in _visits(stages):
        visits = [stage for stage in stages if stage.node_id == node_id]
        failures = sum(1 for stage in visits if stage.status == "failed")
        retries = sum(stage.retries for stage in visits)
        if failures and visits[-1].status in ("succeeded", "partially_succeeded"):
            text = f"{node_id} failed {_times(failures, 'time')} before it succeeded."
            learnings.append({"category": "recovery", "text": text})
        if retries and not failures:
            text = f"{node_id} succeeded after {_times(retries, 'retry')}: its trouble passes."
            learnings.append({"category": "transient", "text": text})
    return learnings


def _times(count: int, word: str) -> str:
    plural = "retries" if word == "retry" else f"{word}s"
    return f"{count} {word if count == 1 else plural}"
