"""The records at the root of a run directory, from the events that make them."""

from collections.abc import Callable

from perdure.base.clock import rfc3339
from perdure.base.jsonvalue import JSON
from perdure.kernel.events import Event

_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")


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
        "labels": resolved(properties.get("labels")) or {},
        "goal": resolved(properties.get("goal")),
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


class Stages:
    """The visits of nodes so far, for the conclusion: how long each took, how often it was tried again, what it used."""

    def __init__(self) -> None:
        self._visits: dict[str, dict[str, JSON]] = {}
        self._usages: dict[str, dict[str, JSON]] = {}

    def begin(self, step: str, properties: dict[str, JSON]) -> None:
        """A visit begins, or another attempt of it."""
        if step not in self._visits:
            self._visits[step] = {
                "stage_id": properties.get("node_id"),
                "stage_label": properties.get("node_label"),
                "duration_ms": 0,
                "retries": 0,
            }

    def end(self, step: str, properties: dict[str, JSON], usage: JSON) -> None:
        """An attempt of a visit ended."""
        visit = self._visits.get(step)
        if visit is None:
            return
        visit["duration_ms"] = _number(visit["duration_ms"]) + _number(properties.get("duration_ms"))
        if properties.get("will_retry"):
            visit["retries"] = _number(visit["retries"]) + 1
        if isinstance(usage, dict):
            self._usages[step] = usage

    def conclusion(self, event: Event, properties: dict[str, JSON]) -> dict[str, JSON]:
        """`conclusion.json`: how it ended. Counters that no backend reported stay absent."""
        failure = properties.get("failure")
        record: dict[str, JSON] = {
            "timestamp": rfc3339(event.ts),
            "status": properties.get("status"),
            "duration_ms": properties.get("duration_ms"),
            "failure_reason": failure.get("message") if isinstance(failure, dict) else None,
            "final_git_commit_sha": properties.get("final_git_commit_sha"),
            "stages": list(self._visits.values()),
            "total_retries": sum(_number(visit["retries"]) for visit in self._visits.values()),
        }
        usages = self._usages.values()
        for token in _TOKENS:
            counts = [_number(usage[f"{token}_tokens"]) for usage in usages if usage.get(f"{token}_tokens") is not None]
            if counts:
                record[f"total_{token}_tokens"] = sum(counts)
        costs = [_number(usage["cost"]) for usage in usages if usage.get("cost") is not None]
        record["has_pricing"] = bool(costs)
        if costs:
            record["total_cost"] = sum(costs)
        return record


def _number(value: JSON) -> int | float:
    """A number of a log that somebody else may have written."""
    return value if isinstance(value, (int, float)) else 0


def interview_request(event: Event, properties: dict[str, JSON], node_id: str | None) -> dict[str, JSON]:
    """`runtime/interview_request.json`: a question that waits, and at which node."""
    timeout_ms = properties.get("timeout_ms")
    metadata = properties.get("metadata")
    named = metadata.get("node_id") if isinstance(metadata, dict) else None
    return {
        "question_id": properties.get("question_id"),
        "text": properties.get("question"),
        "question_type": properties.get("question_type"),
        "options": properties.get("options"),
        "allow_freeform": properties.get("allow_freeform"),
        "default": properties.get("default"),
        "timeout_seconds": timeout_ms / 1000 if isinstance(timeout_ms, (int, float)) else None,
        "stage": named or node_id or event.step,
        "step": event.step,
        "metadata": metadata,
        "context_display": properties.get("context"),
    }
