"""One run in detail: how it stands, what waits for a person, what its steps came to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.budget import add
from perdure.base.clock import rfc3339
from perdure.kernel import large
from perdure.kernel.events import event_of
from perdure.kernel.ownership import describe
from perdure.kernel.question import Question
from perdure.service.listing import described

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.service.state import State
    from perdure.store.records import RunRow

_ENDS = {"step.completed", "step.failed"}
_WAIT_ENDS = _ENDS | {"agent.slot.taken", "step.interrupted"}


def show_run(state: State, row: RunRow) -> dict[str, Any]:
    """Everything that a person asks of one run first."""
    events = [event_of(row.run_id, each) for each in state.store.read_events(row.no)]
    shown = described(row)
    shown["owner"] = describe(row) if row.owner else None
    shown["run_dir"] = state.run_dir(row)
    shown["has_files"] = os.path.isdir(shown["run_dir"])
    shown["events"] = len(events)
    shown["questions"] = questions_of(state, row)
    shown["steps"] = _steps(state, events)
    for step in shown["steps"]:
        if step["status"] == "running" and any(
            each["step"].startswith(f"{step['step']}/") for each in shown["questions"]
        ):
            step["status"] = "waiting"
    shown["slot_waits"] = _slot_waits(events) if shown["status"] in ("running", "waiting") and row.owner else []
    shown["children"] = [
        {"run_id": child.run_id, "name": child.name, "status": child.status}
        for child in state.store.child_runs(row.run_id)
    ]
    last = events[-1].properties if events else {}
    if shown["status"] == "paused":
        shown["status_reason"] = next(
            (event.properties.get("reason") for event in reversed(events) if event.event == "run.paused"), None
        )
    shown["usage"] = shown["usage"] or summed(step["usage"] for step in shown["steps"])
    if row.settled_at is not None:
        shown["failure"] = last.get("failure")
        shown["output"] = large.resolve(last.get("output"), state.blobs)
        shown["final_git_commit_sha"] = last.get("final_git_commit_sha")
    shown["notices"] = [event.properties for event in events if event.event == "run.notice"]
    started = next((event.properties for event in events if event.event == "run.started"), {})
    for key in ("run_branch", "base_sha"):
        shown[key] = started.get(key)
    return shown


def questions_of(state: State, row: RunRow | None) -> list[dict[str, Any]]:
    """Open questions of one run, or of all."""
    if not state.has_runs:
        return []
    found = []
    for each in state.store.open_questions(row.no if row is not None else None):
        question = msgspec.json.decode(each.question)
        found.append(
            {
                "question_id": each.question_id,
                "run_id": each.run_id,
                "step": each.step,
                "asked_at": rfc3339(each.asked_at),
                "answered": each.answer is not None,
                **question,
            }
        )
    return found


def as_question(shown: dict[str, Any]) -> Question:
    """The question itself of what `questions_of` gave."""
    return msgspec.convert(shown, Question)


def _steps(state: State, events: list[Any]) -> list[dict[str, Any]]:
    """The nodes that the run visited, in their order, with how each stands."""
    steps: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.step is None or not event.event.startswith("step."):
            continue
        properties = event.properties
        if not properties.get("node_id"):
            continue
        step = steps.setdefault(
            event.step,
            {
                "step": event.step,
                "node_id": properties["node_id"],
                "label": properties.get("node_label"),
                "handler": properties.get("handler_type"),
                "status": "running",
                "attempts": 0,
                "interruptions": 0,
                "duration_ms": None,
                "failure": None,
                "usage": None,
                "started_at": rfc3339(event.ts),
            },
        )
        if event.event == "step.started":
            step["attempts"] = max(step["attempts"], int(properties.get("attempt") or 1))
            step["status"] = "running"
        elif event.event == "step.interrupted":
            step["interruptions"] += 1
            step["status"] = "interrupted"
        elif event.event in _ENDS:
            result = large.resolve(properties.get("result"), state.blobs)
            step["duration_ms"] = properties.get("duration_ms")
            step["usage"] = result.get("usage") if isinstance(result, dict) else None
            failure = properties.get("failure")
            step["failure"] = failure.get("message") if isinstance(failure, dict) else None
            step["status"] = (result.get("status") if isinstance(result, dict) else None) or (
                "failed" if failure else "succeeded"
            )
    return list(steps.values())


def summed(usages: Iterable[dict[str, Any] | None]) -> dict[str, Any] | None:
    """What several steps used; None when none of them said."""
    total: dict[str, Any] = {}
    for usage in usages:
        add(total, usage or {})
    return total or None


def _slot_waits(events: list[Any]) -> list[dict[str, Any]]:
    """The steps that wait for an agent elsewhere on this machine to end, and why."""
    waits: dict[str, dict[str, Any]] = {}
    for event in events:
        step = event.step or ""
        if event.event == "agent.slot.waiting":
            waits[step] = {"step": step, "text": event.properties["text"], "backend": event.properties["backend"]}
        elif event.event == "run.resumed":
            waits.clear()
        elif event.event in _WAIT_ENDS:
            waits = {each: told for each, told in waits.items() if each != step and not each.startswith(f"{step}/")}
    return list(waits.values())


def inspect_run(state: State, row: RunRow) -> dict[str, Any]:
    """The records of a run directory in one object."""
    folder = state.run_dir(row)
    shown: dict[str, Any] = {"run_id": row.run_id, "status": described(row)["status"]}
    for key, name in (
        ("run_record", "run"),
        ("start_record", "start"),
        ("conclusion", "conclusion"),
        ("checkpoint", "checkpoint"),
    ):
        try:
            with open(os.path.join(folder, f"{name}.json"), "rb") as file:
                shown[key] = msgspec.json.decode(file.read())
        except (OSError, msgspec.DecodeError):
            shown[key] = None
    shown["sandbox"] = None
    return shown
