"""The files of `nodes/`: what each visit of a node was asked, gave and did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.base.jsonvalue import JSON
from perdure.base.names import file_name

if TYPE_CHECKING:
    from perdure.views.run_directory import Files


class NodeFolders:
    """Which folder a step's files go to: the n-th visit of a node has its own."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._visits: dict[str, int] = {}

    def enter(self, step: str, node_id: str) -> str:
        """The folder of this step, under `nodes/`; the same step always has the same."""
        folder = self._folders.get(step)
        if folder is None:
            visit = self._visits.get(node_id, 0) + 1
            self._visits[node_id] = visit
            name = file_name(node_id)
            folder = f"nodes/{name}" if visit == 1 else f"nodes/{name}-visit_{visit}"
            self._folders[step] = folder
        return folder

    def find(self, step: str | None) -> str | None:
        """The folder of the node that a step is, or belongs to."""
        while step:
            folder = self._folders.get(step)
            if folder is not None:
                return folder
            step = step.rpartition("/")[0]
        return None


def write_prompt(files: Files, folder: str, properties: dict[str, JSON]) -> None:
    """`prompt.md`, and which backend got it."""
    files.write_text(f"{folder}/prompt.md", properties.get("text"))
    if properties.get("provider_used") is not None:
        files.write_json(f"{folder}/provider_used.json", properties["provider_used"])


def write_status(files: Files, folder: str, properties: dict[str, JSON], timestamp: str) -> None:
    """`status.json` with its nulls, and the response if there is one."""
    result = files.resolved(properties.get("result"))
    outcome = result if isinstance(result, dict) else {}
    failure = properties.get("failure") or outcome.get("failure")
    reason = failure.get("message") if isinstance(failure, dict) else None
    status = outcome.get("status") or ("failed" if failure else "succeeded")
    record: dict[str, JSON] = {
        "status": status,
        "notes": outcome.get("notes"),
        "failure_reason": reason,
        "timestamp": timestamp,
    }
    for key in ("preferred_label", "suggested_next_ids", "context_updates"):
        if outcome.get(key):
            record[key] = outcome[key]
    files.write_json(f"{folder}/status.json", record)
    if outcome.get("response") is not None:
        files.write_text(f"{folder}/response.md", outcome["response"])


def write_invocation(files: Files, folder: str, properties: dict[str, JSON]) -> None:
    """`script_invocation.json`."""
    record = {key: properties.get(key) for key in ("command", "language", "timeout_ms")}
    files.write_json(f"{folder}/script_invocation.json", record)


def write_command(files: Files, folder: str, properties: dict[str, JSON]) -> None:
    """What a command printed, and how long it took."""
    files.write_text(f"{folder}/stdout.log", properties.get("stdout") or "")
    files.write_text(f"{folder}/stderr.log", properties.get("stderr") or "")
    record = {key: properties.get(key) for key in ("duration_ms", "exit_code", "timed_out")}
    files.write_json(f"{folder}/script_timing.json", record)
