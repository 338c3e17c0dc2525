"""Where a run stands, folded from its checkpoints: what `checkpoint.json` shows.

Each `checkpoint.completed` event carries only what changed, so that a long run does not write its whole state at each node.
"""

from typing import Any

from perdure.base.jsonvalue import JSON

_MAPS = ("context_values", "node_outcomes", "node_retries", "node_visits")
_COUNTERS = ("loop_failure_signatures", "restart_failure_signatures")


def empty() -> dict[str, Any]:
    """Before the first checkpoint."""
    return {
        "timestamp": None,
        "current_node": None,
        "completed_nodes": [],
        "node_retries": {},
        "context_values": {},
        "node_outcomes": {},
        "next_node_id": None,
        "git_commit_sha": None,
        "loop_failure_signatures": {},
        "restart_failure_signatures": {},
        "node_visits": {},
    }


def fold(checkpoint: dict[str, Any], properties: dict[str, JSON], timestamp: str) -> dict[str, Any]:
    """The checkpoint after an event; the given one is not changed.

    Properties: `current_node`, `next_node_id`, `git_commit_sha`, `completed` (a node id to add), `context_values_set`,
    `context_values_removed`, `node_outcomes_set`, `node_retries_set`, `node_visits_set`, whole
    `loop_failure_signatures` and `restart_failure_signatures`, and `reset` (true when the run began again).
    """
    after = dict(checkpoint)
    if properties.get("reset"):
        after |= {"completed_nodes": [], "context_values": {}, "node_outcomes": {}, "node_retries": {}}
    after["timestamp"] = timestamp
    for key in ("current_node", "next_node_id", "git_commit_sha", *_COUNTERS):
        if key in properties:
            after[key] = properties[key]
    if properties.get("completed"):
        after["completed_nodes"] = [*after["completed_nodes"], properties["completed"]]
    for key in _MAPS:
        changed = properties.get(f"{key}_set")
        if isinstance(changed, dict) and changed:
            after[key] = after[key] | changed
    removed = properties.get("context_values_removed")
    if isinstance(removed, list):
        after["context_values"] = {k: v for k, v in after["context_values"].items() if k not in removed}
    return after
