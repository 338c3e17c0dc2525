"""Capturing files that nodes wrote: copies in the run directory, chosen by the patterns of `[artifacts] include`, within caps.

What was there before the run is not captured, and neither is a file again whose content was captured before. In Git what a run wrote
is what differs from the commit that it began at; elsewhere it is what is younger than the run.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.base.names import file_name
from perdure.disk import globs
from perdure.disk.atomic import private_folder, write_new
from perdure.kernel.operation import StepFailed, operation

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.outcome import NodeOutcome
    from perdure.graph.runtime import Place, Runtime
    from perdure.kernel.context import OperationContext, RunContext

MAX_FILES = 100
MAX_FILE = 10 * 1024 * 1024
MAX_TOTAL = 50 * 1024 * 1024
_MAX_NAME = 1_000
_MANIFEST = "manifest.json"


class Asset(msgspec.Struct, frozen=True):
    """One captured file, as its manifest tells of it. The digests are those of the copy, whose secrets are masked."""

    path: str
    mime: str
    content_md5: str
    content_sha256: str
    bytes: int


class Manifest(msgspec.Struct):
    """What came of one capture."""

    files_copied: int = 0
    total_bytes: int = 0
    files_skipped: int = 0
    download_errors: int = 0
    hash_errors: int = 0
    captured_assets: list[Asset] = []


async def begin(run: RunContext, runtime: Runtime) -> None:
    """Before the first node: remember what time it is for the disk."""
    if not runtime.options.artifacts or runtime.options.dry_run or runtime.git:
        return
    found = await run.step("+artifacts", "graph.capture_since")
    assert isinstance(found, int)
    runtime.captures_since_ns = found


@operation("graph.capture_since")
def read_disk_clock(op: OperationContext, input: None) -> JSON:  # noqa: ARG001 - an operation takes an input
    """The time stamp that a file gets now."""
    folder = os.path.join(op.run_dir, "cache", "spool")
    private_folder(folder)
    path = os.path.join(folder, "clock")
    write_new(path, b"")
    found = os.stat(path).st_mtime_ns
    os.unlink(path)
    return found


async def capture(
    run: RunContext, runtime: Runtime, place: Place, node: Node, visit: int, outcome: NodeOutcome
) -> None:
    """After a node: copy what the patterns name and the run has written, but for what its branches have copied.

    A failure is a notice: the node's work is done.
    """
    place.captured.update(outcome.captured)
    if not runtime.options.artifacts or runtime.options.dry_run or node.handler in ("start", "exit"):
        return
    input: dict[str, JSON] = {"node": node.id, "visit": visit, "place": place.path}
    try:
        result = await run.step("+capture", "graph.capture", input)
    except StepFailed as error:
        _notice(run, "artifact_capture_failed", f"The files of {node.id} were not captured: {error.failure.message}")
        return
    assert isinstance(result, dict)
    place.captured.update(result["seen"])  # type: ignore[arg-type]
    if result["left_out"]:
        _notice(
            run, "artifacts_left_out", f"{result['left_out']} files of {node.id} were not captured; see the manifest."
        )


def _notice(run: RunContext, code: str, message: str) -> None:
    run.emit("run.notice", {"level": "warn", "code": code, "message": message})


def folder_of(node_id: str, visit: int, place: str) -> str:
    """Where a visit's files go, below `cache/artifacts/files`. A node in a branch is named with the branch's place."""
    place = place.removesuffix(f"/{node_id}")
    return f"{file_name(f'{place}/{node_id}' if place else node_id)}/retry_{visit}"


def stored_name(name: str) -> str:
    """The name of a file's copy: its own, but for what a disk or a log cannot hold, and the name of the manifest itself."""
    if name == _MANIFEST:
        return f"%{ord(name[0]):02X}{name[1:]}"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "/".join(file_name(part) for part in name.split("/"))
    return name


@operation("graph.capture")
def copy_files(op: OperationContext, input: dict[str, Any]) -> JSON:
    """Keep the files' contents, and tell of them in `artifact.captured`."""
    runtime: Runtime = op.local
    place = runtime.places[input["place"]]
    root = os.path.realpath(place.work_dir)
    spool = os.path.join(runtime.run_dir, "cache", "spool")
    private_folder(spool)
    base = os.path.join(spool, file_name(op.step_id))
    manifest = Manifest(captured_assets=[])
    files: dict[str, JSON] = {}
    seen: list[JSON] = []
    for name in written(runtime, root):
        content = _read(root, name, manifest)
        if content is None:
            continue
        if op.mask is not None:
            content = op.mask.mask(content)
        asset = _asset(name, content)
        mark = f"{asset.path}:{asset.content_sha256}"
        if mark in place.captured:
            continue
        if manifest.files_copied >= MAX_FILES or manifest.total_bytes + len(content) > MAX_TOTAL:
            manifest.files_skipped += 1
            continue
        write_new(base, content)
        files[asset.path] = op.keep_text(base)
        manifest.files_copied += 1
        manifest.total_bytes += len(content)
        manifest.captured_assets.append(asset)
        seen.append(mark)
    if os.path.exists(base):
        os.unlink(base)
    left_out = manifest.files_skipped + manifest.download_errors
    if manifest.files_copied or left_out:
        told = {
            "node_id": input["node"],
            "folder": folder_of(input["node"], input["visit"], input["place"]),
            "manifest": msgspec.to_builtins(manifest),
            "files": files,
        }
        op.emit("artifact.captured", told)
    return {"seen": seen, "left_out": left_out}


def _asset(name: str, content: bytes) -> Asset:
    from mimetypes import guess_type

    return Asset(
        path=stored_name(name),
        mime=guess_type(name)[0] or "application/octet-stream",
        content_md5=hashlib.md5(content, usedforsecurity=False).hexdigest(),
        content_sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
    )


def _read(root: str, name: str, manifest: Manifest) -> bytes | None:
    """A file's content; None when it is none, leads out of the folder, is too large or cannot be read."""
    path = os.path.join(root, name)
    if len(os.fsencode(name)) > _MAX_NAME:
        manifest.files_skipped += 1
        return None
    try:
        if not os.path.realpath(path).startswith(root + os.sep):
            return None
        # Without O_NONBLOCK a pipe would hold the run.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            content = file.read(MAX_FILE + 1)
    except OSError:
        manifest.download_errors += 1
        return None
    if len(content) > MAX_FILE:
        manifest.files_skipped += 1
        return None
    return content


def written(runtime: Runtime, root: str) -> list[str]:
    """The files that the patterns name and the run has written, in the order of their names."""
    patterns = runtime.options.artifacts
    if runtime.git:
        return sorted(name for name in _changed_in_git(root, runtime.base_sha) if globs.matches(patterns, name))
    found = {name for pattern in patterns for name in globs.files(root, pattern)}
    return sorted(name for name in found if _is_younger(os.path.join(root, name), runtime.captures_since_ns))


def _changed_in_git(root: str, base_sha: str) -> set[str]:
    """What differs from the commit, and what Git does not know, ignored files too."""
    from perdure.git.command import git

    changed = git(
        root, "diff", "--name-only", "--no-renames", "--diff-filter=d", "--relative", "-z", base_sha, "--", "."
    )
    unknown = git(root, "ls-files", "--others", "-z", "--", ".")
    names = b"\0".join([changed.stdout, unknown.stdout]).split(b"\0")
    return {os.fsdecode(name) for name in names if name and not name.endswith(b"/")}


def _is_younger(path: str, since_ns: int) -> bool:
    """Whether the file was made, changed or moved here since; the change of its entry tells, as programs set other times freely."""
    try:
        return os.lstat(path).st_ctime_ns >= since_ns
    except OSError:
        return False
