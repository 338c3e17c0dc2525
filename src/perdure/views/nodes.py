"""The files of `nodes/`: what each visit of a node was asked, gave and did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.base.jsonvalue import JSON
from perdure.base.names import file_name

if TYPE_CHECKING:
    from perdure.views.files import Files


def folder_name(node_id: str, visit: int) -> str:
    """The folder of a node's n-th visit, under `nodes/`. No two visits of any nodes share one: a node that is itself named like
    a later visit has its number written at the first visit too."""
    name = file_name(node_id)
    base, mark, number = name.rpartition("-visit_")
    looks_like_visit = bool(base and mark and number.isdigit())
    return name if visit == 1 and not looks_like_visit else f"{name}-visit_{visit}"


class NodeFolders:
    """Which folder a step's files go to: the n-th visit of a node, counted in the order of the log, has its own."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._visits: dict[str, int] = {}

    def enter(self, step: str, node_id: str) -> str:
        """The folder of this step, under `nodes/`; the same step always has the same. A step inside a visit of the same node
        is a part of that visit."""
        folder = self._folders.get(step)
        if folder is not None:
            return folder
        around = self._around(step.rpartition("/")[0])
        if around and self._nodes[around] == node_id:
            return self._folders[around]
        visit = self._visits.get(node_id, 0) + 1
        self._visits[node_id] = visit
        folder = f"nodes/{folder_name(node_id, visit)}"
        self._folders[step] = folder
        self._nodes[step] = node_id
        return folder

    def of_visit(self, step: str | None) -> str | None:
        """The folder of the visit that this very step is."""
        return self._folders.get(step) if step else None

    def find(self, step: str | None) -> str | None:
        """The folder of the visit that a step is, or belongs to."""
        around = self._around(step)
        return self._folders[around] if around else None

    def node_of(self, step: str | None) -> str | None:
        """The node that a step visits, or belongs to."""
        around = self._around(step)
        return self._nodes[around] if around else None

    def latest(self, node_id: str) -> str:
        """The folder of a node's latest visit; of its first when it has had none."""
        return f"nodes/{folder_name(node_id, max(1, self._visits.get(node_id, 0)))}"

    def _around(self, step: str | None) -> str | None:
        while step:
            if step in self._folders:
                return step
            step = step.rpartition("/")[0]
        return None


def write_prompt(files: Files, folder: str, properties: dict[str, JSON]) -> None:
    """`prompt.md`, and which backend got it."""
    files.write_text(f"{folder}/prompt.md", properties.get("text"))
    if properties.get("provider_used") is not None:
        files.write_json(f"{folder}/provider_used.json", files.resolved(properties["provider_used"]))


def write_status(
    files: Files, folder: str, properties: dict[str, JSON], outcome: dict[str, JSON], timestamp: str
) -> None:
    """`status.json` with its nulls, and the response if there is one."""
    failure = properties.get("failure") or outcome.get("failure")
    reason = failure.get("message") if isinstance(failure, dict) else None
    record: dict[str, JSON] = {
        "status": outcome.get("status") or ("failed" if failure else "succeeded"),
        "notes": outcome.get("notes"),
        "failure_reason": reason,
        "timestamp": timestamp,
    }
    for key in ("preferred_label", "suggested_next_ids", "context_updates"):
        if outcome.get(key):
            record[key] = outcome[key]
    files.write_json(f"{folder}/status.json", record)
    response = outcome.get("response")
    if response is None:
        response = properties.get("response")
    if response is not None:
        files.write_text(f"{folder}/response.md", response)


def write_invocation(files: Files, folder: str, properties: dict[str, JSON]) -> None:
    """`script_invocation.json`."""
    record = {key: files.resolved(properties.get(key)) for key in ("command", "language", "timeout_ms")}
    files.write_json(f"{folder}/script_invocation.json", record)


def write_command(files: Files, folder: str, properties: dict[str, JSON]) -> None:
    """What a command printed, and how long it took."""
    files.write_text(f"{folder}/stdout.log", properties.get("stdout"))
    files.write_text(f"{folder}/stderr.log", properties.get("stderr"))
    record = {key: properties.get(key) for key in ("duration_ms", "exit_code", "timed_out")}
    files.write_json(f"{folder}/script_timing.json", record)


def write_agent(files: Files, folder: str, properties: dict[str, JSON]) -> None:
    """What an agent's program printed besides its answer: its errors, and all of an output that was too long to be one."""
    for name in ("stdout", "stderr"):
        if properties.get(name):
            files.write_text(f"{folder}/{name}.log", properties[name])
