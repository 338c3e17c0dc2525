"""Capturing files that a node made: copies in the run directory, by the patterns of `[artifacts] include`, within caps."""

from __future__ import annotations

import hashlib
import os
import shutil
from glob import glob
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any

from perdure.base.jsonvalue import JSON
from perdure.base.names import file_name
from perdure.disk.atomic import private_folder
from perdure.kernel.operation import operation

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import OperationContext, RunContext

MAX_FILES = 100
MAX_FILE = 10 * 1024 * 1024
MAX_TOTAL = 50 * 1024 * 1024


async def capture(run: RunContext, runtime: Runtime, node: Node, visit: int) -> None:
    """After a node: copy what the patterns name and the node has written."""
    if runtime.options.dry_run or node.handler in ("start", "exit"):
        return
    input: dict[str, JSON] = {"node": node.id, "visit": visit, "patterns": list(runtime.options.artifacts)}
    result = await run.step("+capture", "graph.capture", input)
    assert isinstance(result, dict)
    if result["files_copied"]:
        folder = f"{file_name(node.id)}/retry_{visit}"
        run.emit("artifact.captured", {"node_id": node.id, "folder": folder, "manifest": result})


@operation("graph.capture")
def copy_files(op: OperationContext, input: dict[str, Any]) -> JSON:
    """Copy files into the run directory; a file that was copied before with the same content is left out."""
    runtime: Runtime = op.local
    root = os.path.realpath(runtime.main.work_dir)
    target = os.path.join(
        runtime.run_dir, "cache", "artifacts", "files", file_name(input["node"]), f"retry_{input['visit']}"
    )
    assets: list[JSON] = []
    skipped = total = 0
    seen: set[str] = runtime.captured
    for name in _found(root, input["patterns"]):
        path = os.path.join(root, name)
        size = os.path.getsize(path)
        if len(assets) >= MAX_FILES or size > MAX_FILE or total + size > MAX_TOTAL:
            skipped += 1
            continue
        with open(path, "rb") as file:
            content = file.read()
        sha = hashlib.sha256(content).hexdigest()
        if f"{name}:{sha}" in seen:
            continue
        seen.add(f"{name}:{sha}")
        copy = os.path.join(target, name)
        private_folder(os.path.dirname(copy))
        shutil.copyfile(path, copy)
        os.chmod(copy, 0o600)
        total += size
        assets.append(
            {
                "path": name,
                "mime": guess_type(name)[0] or "application/octet-stream",
                "content_md5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
                "content_sha256": sha,
                "bytes": size,
            }
        )
    return {
        "files_copied": len(assets),
        "total_bytes": total,
        "files_skipped": skipped,
        "download_errors": 0,
        "hash_errors": 0,
        "captured_assets": assets,
    }


def _found(root: str, patterns: list[str]) -> list[str]:
    """Regular files inside the root that a pattern names; links that lead out are left alone."""
    names: dict[str, None] = {}
    for pattern in patterns:
        for path in sorted(glob(pattern, root_dir=root, recursive=True, include_hidden=False)):
            whole = os.path.realpath(os.path.join(root, path))
            if whole.startswith(root + os.sep) and os.path.isfile(whole):
                names[os.path.relpath(os.path.join(root, path), root)] = None
    return [name for name in names if not name.startswith("..")]
