"""Runs in a list: what each is, and how it truly stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.base.clock import rfc3339
from perdure.base.jsonvalue import decode
from perdure.kernel.lifecycle import SETTLED
from perdure.kernel.ownership import true_status

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow

ACTIVE = ("submitted", "running", "waiting", "paused", "interrupted")


def list_runs(
    state: State, *, all_runs: bool, workflow: str = "", labels: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Runs, newest first; only those that are not settled unless all are wanted. A record that cannot be read costs itself only."""
    if not state.has_runs:
        return []
    shown = [described(row) for row in state.store.list_runs(open_only=not all_runs)]
    if workflow:
        wanted = workflow.lower()
        shown = [each for each in shown if wanted in (each["name"].lower(), each["workflow_slug"])]
    for key, value in (labels or {}).items():
        shown = [each for each in shown if each["labels"].get(key) == value]
    return shown


def described(row: RunRow) -> dict[str, Any]:
    """One run as lists show it. Times are RFC 3339, durations milliseconds."""
    try:
        record = decode(row.record)
        readable = isinstance(record, dict)
    except ValueError:
        record, readable = {}, False
    assert isinstance(record, dict) or not readable
    found: dict[str, Any] = record if isinstance(record, dict) else {}
    status = true_status(row) if row.status not in SETTLED else row.status
    return {
        "run_id": row.run_id,
        "name": row.name,
        "kind": row.kind,
        "status": status,
        "status_reason": found.get("reason"),
        "created_at": rfc3339(row.created_at),
        "started_at": rfc3339(row.started_at) if row.started_at is not None else None,
        "settled_at": rfc3339(row.settled_at) if row.settled_at is not None else None,
        "duration_ms": found.get("duration_ms"),
        "goal": found.get("goal") or "",
        "labels": found.get("labels") or {},
        "workflow_slug": found.get("workflow_slug") or "",
        "working_directory": found.get("working_directory"),
        "run_dir": row.run_dir,
        "parent_run_id": row.parent,
        "is_readable": readable,
    }
