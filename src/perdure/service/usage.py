"""What the state home holds, in bytes, and what pruning would give back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from perdure.base.clock import parse_rfc3339
from perdure.service.listing import list_runs
from perdure.service.removal import folder_bytes

if TYPE_CHECKING:
    from perdure.disk.home import StateHome
    from perdure.service.state import State

_FOLDERS = {
    "runs": "run directories",
    "artifacts": "content that is too large for the log",
    "agent-sessions": "conversations of agents",
    "launchers": "processes of detached runs",
    "workspaces": "workspaces",
    "workflows": "the person's own workflows",
}


class Usage(msgspec.Struct, frozen=True):
    """One part of the state home: its bytes, how many things it holds, and how many bytes of settled runs `prune` takes away."""

    name: str
    what: str
    bytes: int
    count: int = 0
    reclaimable: int = 0


def usage_of(state: State, settled_before_ms: int) -> list[Usage]:
    """The parts of the state home; what is reclaimable is of runs that were settled before this time (epoch ms)."""
    home = state.home
    found = [_database(home)]
    known = {"state.sqlite", "state.sqlite-wal", "state.sqlite-shm"}
    for name, what in _FOLDERS.items():
        path = os.path.join(home.root, name)
        known.add(name)
        reclaimable = _reclaimable(state, settled_before_ms) if name == "runs" else 0
        found.append(Usage(name, what, folder_bytes(path), _count(home, name, path), reclaimable))
    rest = [each for each in _entries(home.root) if each not in known]
    found.append(Usage("other", "settings, secrets and logs", sum(_bytes(home.root, each) for each in rest), len(rest)))
    return [each for each in found if each.bytes or each.name in ("state.sqlite", "runs", "artifacts")]


def _database(home: StateHome) -> Usage:
    size = sum(_bytes(home.root, f"state.sqlite{ending}") for ending in ("", "-wal", "-shm"))
    return Usage("state.sqlite", "the log of all runs", size, 1 if size else 0)


def _count(home: StateHome, name: str, path: str) -> int:
    if name == "artifacts":
        return sum(len(names) for _folder, _folders, names in os.walk(home.blobs))
    return sum(1 for each in _entries(path) if not each.startswith("."))


def _reclaimable(state: State, settled_before_ms: int) -> int:
    if not state.has_runs:
        return 0
    total = 0
    for each in list_runs(state, all_runs=True):
        if each.settled_at is None or each.parent_run_id or parse_rfc3339(each.settled_at) >= settled_before_ms:
            continue
        row = state.store.find_run(each.run_id)
        total += folder_bytes(state.run_dir(row)) if row is not None else 0
    return total


def _entries(path: str) -> list[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def _bytes(root: str, name: str) -> int:
    path = os.path.join(root, name)
    if os.path.isdir(path) and not os.path.islink(path):
        return folder_bytes(path)
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
