"""What a run changed and captured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from perdure.base.errors import NotFound
from perdure.kernel import large
from perdure.kernel.events import event_of

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow


def changes_of(state: State, row: RunRow, *, node: str | None, stat: bool, short: bool) -> bytes:
    """The patch of the run, or of one visit of a node, or its figures. Raises `NotFound` when it has no commits."""
    from perdure.git import diff
    from perdure.git.worktree import branch_exists, run_branch

    events = [event_of(row.run_id, each) for each in state.store.read_events(row.no)]
    started = next((event.properties for event in events if event.event == "run.started"), {})
    root, base = started.get("repository"), started.get("base_sha")
    if not root or not base:
        return _last_patch(state, row, events)
    if node is not None:
        sha = _commit_of(events, node)
        if sha is None:
            raise NotFound(f"Run {row.run_id} has no commit of {node}.", hint="`perdure show` lists its steps.")
        if stat or short:
            return diff.stat(str(root), f"{sha}^", sha, short=short).encode() + b"\n"
        return diff.diff_of(str(root), sha)
    branch = run_branch(row.run_id)
    if not os.path.isdir(str(root)) or not branch_exists(str(root), branch):
        return _last_patch(state, row, events)
    if stat or short:
        return diff.stat(str(root), str(base), branch, short=short).encode() + b"\n"
    return diff.diff(str(root), str(base), branch)


def _last_patch(state: State, row: RunRow, events: list[Any]) -> bytes:
    """The patch that the log holds, when the repository is gone."""
    patch = large.resolve(events[-1].properties.get("final_patch"), state.blobs) if events else None
    if patch is None:
        raise NotFound(f"Run {row.run_id} has no commits: it did not work in a worktree.")
    return str(patch).encode()


def _commit_of(events: list[Any], node: str) -> str | None:
    name, _, number = node.partition("@")
    wanted = name if number in ("", "1") else f"{name}@{number}"
    found = None
    for event in events:
        if event.event != "checkpoint.completed":
            continue
        properties = event.properties
        if properties.get("git_commit_sha") and (
            properties.get("step_id") == wanted or (not number and properties.get("node_id") == name)
        ):
            found = str(properties["git_commit_sha"])
    return found


def artifacts_of(state: State, row: RunRow) -> list[dict[str, Any]]:
    """The files that the run captured, and where they lie. What a foreign log names outside of the run's own folder is left out."""
    root = os.path.realpath(os.path.join(state.run_dir(row), "cache", "artifacts", "files"))
    found: list[dict[str, Any]] = []
    for each in state.store.read_events(row.no):
        if each.event != "artifact.captured":
            continue
        properties: dict[str, Any] = event_of(row.run_id, each).properties
        manifest = large.resolve(properties.get("manifest"), state.blobs)
        assets = manifest.get("captured_assets") if isinstance(manifest, dict) else None
        for asset in assets if isinstance(assets, list) else []:
            if not isinstance(asset, dict):
                continue
            name = f"{properties.get('folder')}/{asset.get('path')}"
            path = os.path.join(root, name)
            if path == os.path.realpath(path):
                found.append({**asset, "node_id": properties.get("node_id"), "file": path, "name": name})
    return found
