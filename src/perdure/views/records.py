"""The records at the root of a run directory, from the events that make them."""

from collections.abc import Callable
from typing import Any

from perdure.base.clock import rfc3339
from perdure.base.jsonvalue import JSON
from perdure.kernel.events import Event


def run_record(event: Event, properties: dict[str, JSON], resolved: Callable[[JSON], JSON]) -> dict[str, JSON]:
    """`run.json`: what the run was made of."""
    definition = resolved(properties.get("definition"))
    named = definition if isinstance(definition, dict) else {}
    return {
        "run_id": event.run_id,
        "created_at": rfc3339(event.ts),
        "name": named.get("name"),
        "kind": named.get("kind"),
        "config": resolved(properties.get("settings")) or {},
        "graph": resolved(properties.get("graph")),
        "workflow_slug": properties.get("workflow_slug"),
        "working_directory": properties.get("working_directory"),
        "host_repo_path": properties.get("host_repo_path"),
        "base_branch": properties.get("base_branch"),
        "labels": properties.get("labels") or {},
        "goal": properties.get("goal"),
        "input": resolved(properties.get("input")),
        "parent_run_id": properties.get("parent_run_id"),
    }


def start_record(event: Event, properties: dict[str, JSON]) -> dict[str, JSON]:
    """`start.json`: when it began, and in Git mode from where."""
    record: dict[str, JSON] = {"run_id": event.run_id, "start_time": rfc3339(event.ts)}
    for key in ("run_branch", "base_sha"):
        if properties.get(key):
            record[key] = properties[key]
    return record


def note_stage(facts: dict[str, Any], event: Event, properties: dict[str, JSON], folder: str) -> None:
    """Remember a node's visit for the conclusion."""
    stages = facts.setdefault("stages", {})
    stage = stages.setdefault(
        event.step,
        {
            "stage_id": properties["node_id"],
            "stage_label": properties.get("node_label"),
            "duration_ms": 0,
            "retries": 0,
        },
    )
    stage["folder"] = folder


def note_stage_end(facts: dict[str, Any], event: Event, properties: dict[str, JSON]) -> None:
    """Remember how long a visit took, what it cost, and how often it was tried again."""
    stage = facts.get("stages", {}).get(event.step)
    if stage is None:
        return
    stage["duration_ms"] += int(properties.get("duration_ms") or 0)  # type: ignore[arg-type]
    if properties.get("will_retry"):
        stage["retries"] += 1
    result = properties.get("result")
    usage = result.get("usage") if isinstance(result, dict) else None
    if isinstance(usage, dict):
        stage["usage"] = usage


_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")


def conclusion_record(event: Event, properties: dict[str, JSON], facts: dict[str, Any]) -> dict[str, JSON]:
    """`conclusion.json`: how it ended. Counters that no backend reported stay absent."""
    failure = properties.get("failure")
    stages = list(facts.get("stages", {}).values())
    usages = [stage["usage"] for stage in stages if "usage" in stage]
    record: dict[str, JSON] = {
        "timestamp": rfc3339(event.ts),
        "status": properties.get("status"),
        "duration_ms": properties.get("duration_ms"),
        "failure_reason": failure.get("message") if isinstance(failure, dict) else None,
        "final_git_commit_sha": properties.get("final_git_commit_sha"),
        "stages": [
            {key: stage[key] for key in ("stage_id", "stage_label", "duration_ms", "retries")} for stage in stages
        ],
        "total_retries": sum(stage["retries"] for stage in stages),
    }
    for token in _TOKENS:
        counts = [usage[f"{token}_tokens"] for usage in usages if f"{token}_tokens" in usage]
        if counts:
            record[f"total_{token}_tokens"] = sum(counts)
    costs = [usage["cost"] for usage in usages if "cost" in usage]
    record["has_pricing"] = bool(costs)
    if costs:
        record["total_cost"] = sum(costs)
    return record


def interview_request(event: Event, properties: dict[str, JSON]) -> dict[str, JSON]:
    """`runtime/interview_request.json`: a question that waits."""
    timeout_ms = properties.get("timeout_ms")
    return {
        "question_id": properties.get("question_id"),
        "text": properties.get("question"),
        "question_type": properties.get("question_type"),
        "options": properties.get("options"),
        "allow_freeform": properties.get("allow_freeform"),
        "default": properties.get("default"),
        "timeout_seconds": timeout_ms / 1000 if isinstance(timeout_ms, int) else None,
        "stage": event.step,
        "step": event.step,
        "metadata": properties.get("metadata"),
        "context_display": properties.get("context"),
    }
