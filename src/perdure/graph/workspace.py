"""Where a run works, and its trail in Git: a worktree on a branch of its own, one commit a node, the records beside it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.errors import PerdureError
from perdure.base.jsonvalue import JSON
from perdure.kernel.operation import StepFailed, operation

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.options import Options
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import OperationContext, RunContext
    from perdure.kernel.outcome import Outcome

_META_LIMIT = 512 * 1024
_META_FILES = ("run.json", "start.json", "checkpoint.json", "retro.json", "workflow.fabro", "workflow.toml")


def start_facts(options: Options, run_id: str) -> dict[str, JSON]:
    """What `run.started` records: the commit that the run begins at. Nothing without Git."""
    if options.git != "worktree" or options.dry_run or not options.repository:
        return {}
    from perdure.git.repository import find_repository

    found = find_repository(options.repository)
    if found is None or found.base_sha is None:
        return {}
    from perdure.git.worktree import run_branch

    return {
        "base_sha": found.base_sha,
        "base_branch": found.branch,
        "repository": found.root,
        "run_branch": run_branch(run_id),
        "subfolder": os.path.relpath(os.path.realpath(options.working_directory), os.path.realpath(found.root)),
    }


async def prepare(run: RunContext, runtime: Runtime) -> None:
    """The worktree is there, also when it was there before and is gone."""
    if not runtime.git:
        return
    from perdure.git.worktree import run_branch

    await run.step("+worktree", "graph.worktree", {"base_sha": runtime.base_sha})
    run.emit("git.worktree.added", {"path": runtime.worktree, "branch": run_branch(run.run_id)})


def add_main_worktree(runtime: Runtime) -> None:
    """Make the run's worktree, or find it as it should be."""
    from perdure.git.worktree import add_worktree, run_branch

    add_worktree(runtime.repository, runtime.worktree, run_branch(runtime.run_id), runtime.base_sha)


def ensure_worktree(op: OperationContext, runtime: Runtime) -> None:
    """Before something is done in it: a worktree whose folder is gone is made again from the run's branch."""
    if not runtime.git or os.path.isdir(runtime.worktree):
        return
    add_main_worktree(runtime)
    text = f"The worktree {runtime.worktree} was gone and is made again from the run's branch."
    op.emit("run.notice", {"level": "warn", "code": "worktree_recreated", "message": text}, again=True)


@operation("graph.worktree")
def make_worktree(op: OperationContext, input: dict[str, Any]) -> JSON:
    """The run's worktree on its own branch."""
    runtime: Runtime = op.local
    add_main_worktree(runtime)
    return {"base_sha": input["base_sha"]}


async def checkpoint(run: RunContext, runtime: Runtime, node: Node, status: str) -> None:
    """Commit what the node changed, and the records; best effort, a failure is a notice."""
    if not runtime.git or node.handler == "start":
        return
    await run.flush()
    state = runtime.state
    completed = sum(1 for stage in state.stages if stage.handler != "start")
    input = {"node": node.id, "status": status, "completed": completed}
    try:
        result = await run.step("+checkpoint", "graph.checkpoint", input)
    except StepFailed as error:
        notice = {"level": "warn", "code": "git_checkpoint_failed", "message": error.failure.message}
        run.emit("run.notice", notice)
        return
    assert isinstance(result, dict)
    run.emit("git.commit", {"node_id": node.id, "sha": result["sha"], "meta_sha": result["meta_sha"]})
    told = {"node_id": node.id, "step_id": state.stages[-1].step, "git_commit_sha": result["sha"]}
    run.emit("checkpoint.completed", told | {"diff": result.get("diff")})


@operation("graph.checkpoint")
async def commit_node(op: OperationContext, input: dict[str, Any]) -> JSON:
    """One commit on the metadata branch, one on the run's branch; each is made once."""
    from perdure.git.checkpoint import Checkpoint, commit_checkpoint
    from perdure.git.diff import diff_of
    from perdure.git.metadata import commit_metadata
    from perdure.git.repository import check_worktree
    from perdure.git.worktree import meta_branch

    runtime: Runtime = op.local
    ensure_worktree(op, runtime)
    check_worktree(runtime.worktree)
    at_ms = await op.now_ms()
    message = f"perdure({runtime.run_id}): {input['node']} ({input['status']}) {input['completed']}"
    meta_sha = commit_metadata(
        runtime.repository, meta_branch(runtime.run_id), message, record_files(runtime.run_dir), at_ms
    )
    made = Checkpoint(runtime.run_id, input["node"], input["status"], input["completed"], at_ms, meta_sha)
    sha = commit_checkpoint(runtime.worktree, made, runtime.options.exclude)
    patch = diff_of(runtime.repository, sha)
    result: dict[str, JSON] = {"sha": sha, "meta_sha": meta_sha}
    if patch:
        result["diff"] = patch.decode("utf-8", "replace")
    return result


def record_files(run_dir: str) -> dict[str, bytes]:
    """The records that the metadata branch keeps: those at the root, and what nodes were asked and gave."""
    files: dict[str, bytes] = {}
    for name in _META_FILES:
        _read_into(files, run_dir, name)
    for folder, _folders, names in os.walk(os.path.join(run_dir, "nodes")):
        if f"{os.sep}child" in folder[len(run_dir) :]:
            continue
        for name in names:
            if not name.endswith(".tmp"):
                _read_into(files, run_dir, os.path.relpath(os.path.join(folder, name), run_dir))
    values = os.path.join(run_dir, "cache", "artifacts", "values")
    for name in os.listdir(values) if os.path.isdir(values) else []:
        _read_into(files, run_dir, os.path.join("cache", "artifacts", "values", name), f"artifacts/{name}")
    return files


def _read_into(files: dict[str, bytes], run_dir: str, name: str, as_name: str | None = None) -> None:
    path = os.path.join(run_dir, name)
    try:
        if os.path.getsize(path) <= _META_LIMIT:
            with open(path, "rb") as file:
                files[as_name or name] = file.read()
    except OSError:
        return


async def finish(run: RunContext, runtime: Runtime, outcome: Outcome, *, kept_because: str | None = None) -> Outcome:
    """The end of a run in Git: its last commit, the patch of all of it, and the worktree removed when nothing is left in it, unless
    somebody wants it kept."""
    if not runtime.git:
        return outcome
    keep = runtime.options.keep_worktree or kept_because is not None
    try:
        result = await run.step("+finish", "graph.finish", {"keep": keep})
    except StepFailed as error:
        run.emit("run.notice", {"level": "warn", "code": "git_finish_failed", "message": error.failure.message})
        return outcome
    assert isinstance(result, dict)
    if result.get("removed"):
        run.emit("git.worktree.removed", {"path": runtime.worktree})
    elif not runtime.options.keep_worktree:
        text = kept_because or f"{runtime.worktree} holds work that is not committed, so it stays."
        run.emit("run.notice", {"level": "warn", "code": "worktree_kept", "message": text})
    branches = result.get("branches")
    if branches:
        assert isinstance(branches, list)
        text = f"Branches whose work was not merged stay: {', '.join(str(each) for each in branches)}."
        run.emit("run.notice", {"level": "warn", "code": "branches_kept", "message": text})
    properties = {"final_git_commit_sha": result["sha"], "final_patch": result.get("patch")}
    return msgspec.structs.replace(outcome, properties=outcome.properties | properties)


@operation("graph.finish")
def finish_worktree(op: OperationContext, input: dict[str, Any]) -> JSON:
    """The figures of the whole branch; the worktree, and the branches of merged parallel work, removed."""
    from perdure.git.command import git
    from perdure.git.diff import diff
    from perdure.git.worktree import remove_merged_branches, remove_worktree, run_branch
    from perdure.graph.handlers.parallel import remove_branch_worktrees

    runtime: Runtime = op.local
    sha = git(runtime.repository, "rev-parse", f"refs/heads/{run_branch(runtime.run_id)}").text
    patch = diff(runtime.repository, runtime.base_sha, sha).decode("utf-8", "replace")
    remove_branch_worktrees(runtime)
    kept = remove_merged_branches(runtime.repository, runtime.run_id, sha)
    removed = False
    if not input["keep"]:
        try:
            removed = remove_worktree(runtime.repository, runtime.worktree)
        except PerdureError:
            removed = False
    return {"sha": sha, "patch": patch, "removed": removed, "branches": [*kept]}


def tidy(run_dir: str) -> None:
    """Folders that a run needed while it was at work, and that hold nothing any more, are not left in its directory."""
    for name in ("worktrees", "cache/spool", "cache"):
        with suppress(OSError):
            os.rmdir(os.path.join(run_dir, name))


@operation("graph.setup")
async def run_setup(op: OperationContext, input: dict[str, Any]) -> JSON:
    """One setup command; a failure ends the run before its first node."""
    from perdure.graph.scripts import run_script
    from perdure.kernel.operation import OperationFailed
    from perdure.kernel.outcome import Failure

    runtime: Runtime = op.local
    if op.was_interrupted:
        from perdure.graph.recovery import end_started

        await end_started(op)
    ended = await run_script(
        op, runtime, runtime.main, input["command"], "shell", input["timeout_ms"], event="setup.command"
    )
    if ended.result.exit_code != 0:
        raise OperationFailed(Failure(f"The setup command {input['command']!r} failed: {ended.why}"))
    return {"exit_code": 0}
