"""Hooks: programs that are called at certain events of a run. A blocking hook may stop the event, or send the run another way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.disk.atomic import private_folder
from perdure.kernel.operation import operation

if TYPE_CHECKING:
    from perdure.graph.options import Hook
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import OperationContext, RunContext

EVENTS = (
    "run_start", "run_complete", "run_failed", "stage_start", "stage_complete", "stage_failed", "stage_retrying",
    "edge_selected", "parallel_start", "parallel_complete", "sandbox_ready", "sandbox_cleanup", "checkpoint_saved",
    "pre_tool_use", "post_tool_use", "post_tool_use_failure",
)  # fmt: skip
BLOCKING = frozenset({"run_start", "stage_start", "edge_selected", "sandbox_ready", "pre_tool_use"})


class Hooks:
    """The hooks of one run, each call of one a recorded step."""

    def __init__(self, runtime: Runtime, run: RunContext) -> None:
        self._hooks = [] if runtime.options.dry_run else runtime.options.hooks
        self._runtime = runtime
        self._run = run

    async def fire(self, event: str, node_id: str = "") -> str | None:
        """Call the hooks of an event; why it is blocked, if it is."""
        for number, hook in self._matching(event, node_id):
            decision = await self._call(number, hook, event, node_id, None)
            if decision["decision"] == "block" and blocks(hook):
                return (
                    f"Hook {hook.name or hook.command} blocked {event}: {decision.get('reason') or 'no reason given'}"
                )
        return None

    async def override(self, event: str, node_id: str, target: str) -> str | None:
        """The node that a hook sends the run to, if one does."""
        for number, hook in self._matching(event, node_id):
            decision = await self._call(number, hook, event, node_id, target)
            if decision["decision"] == "override" and decision.get("edge_to"):
                return str(decision["edge_to"])
        return None

    def _matching(self, event: str, node_id: str) -> list[tuple[int, Hook]]:
        if not self._hooks:
            return []
        import re

        node = self._runtime.graph.nodes.get(node_id)
        handler = node.handler if node else ""
        return [
            (number, hook)
            for number, hook in enumerate(self._hooks)
            if hook.event == event
            and (not hook.matcher or re.search(hook.matcher, node_id) or re.search(hook.matcher, handler))
        ]

    async def _call(self, number: int, hook: Hook, event: str, node_id: str, target: str | None) -> dict[str, Any]:
        input: dict[str, JSON] = {"hook": number, "event": event, "node_id": node_id, "target": target}
        result = await self._run.step("+hook", "graph.hook", input)
        assert isinstance(result, dict)
        return result


def blocks(hook: Hook) -> bool:
    """Whether a hook may block its event."""
    return hook.blocking if hook.blocking is not None else hook.event in BLOCKING


def decision_of(exit_code: int | None, stdout: str, stderr: str, *, blocking: bool) -> dict[str, Any]:
    """What a hook decided: by its answer, else by its exit code (2 blocks; any but 0 when it is blocking)."""
    import json

    try:
        value = json.loads(stdout) if stdout.strip().startswith("{") else None
    except ValueError:
        value = None
    if isinstance(value, dict) and value.get("decision") in ("proceed", "skip", "block", "override"):
        return {key: value.get(key) for key in ("decision", "reason", "edge_to")}
    if exit_code == 2 or (exit_code != 0 and blocking):
        return {"decision": "block", "reason": (stderr or stdout).strip()[-500:] or f"exit code {exit_code}"}
    return {"decision": "proceed"}


@operation("graph.hook")
async def call_hook(op: OperationContext, input: dict[str, Any]) -> JSON:
    """One call of one hook."""
    runtime: Runtime = op.local
    hook = runtime.options.hooks[input["hook"]]
    told = {
        "event": input["event"],
        "run_id": runtime.run_id,
        "workflow": runtime.graph.name,
        "node_id": input["node_id"],
        "target": input["target"],
        "run_dir": runtime.run_dir,
    }
    if hook.type == "http":
        return await _call_http(hook, told)
    return await _call_command(op, runtime, hook, told)


async def _call_command(op: OperationContext, runtime: Runtime, hook: Hook, told: dict[str, Any]) -> JSON:
    from perdure.base.names import file_name
    from perdure.graph.scripts import place_environment
    from perdure.sandbox.command import CommandSpec, run_command, script_argv, tail_text

    folder = os.path.join(runtime.run_dir, "cache", "spool")
    private_folder(folder)
    base = os.path.join(folder, file_name(op.step_id))
    more = {
        "PERDURE_EVENT": told["event"], "PERDURE_RUN_ID": told["run_id"], "PERDURE_WORKFLOW": told["workflow"],
        "PERDURE_NODE_ID": told["node_id"] or "", "PERDURE_HOOK_CONTEXT": msgspec.json.encode(told).decode(),
    }  # fmt: skip
    spec = CommandSpec(
        argv=script_argv(hook.command, "shell"),
        cwd=runtime.main.work_dir if os.path.isdir(runtime.main.work_dir) else runtime.run_dir,
        env=place_environment(runtime, more),
        stdin=msgspec.json.encode(told),
        timeout_ms=hook.timeout_ms,
    )
    new_filter = op.mask.stream if op.mask is not None else None
    result = await run_command(spec, stdout_path=f"{base}.stdout", stderr_path=f"{base}.stderr", new_filter=new_filter)
    stdout, stderr = tail_text(f"{base}.stdout"), tail_text(f"{base}.stderr")
    for name in ("stdout", "stderr"):
        os.unlink(f"{base}.{name}")
    if result.timed_out:
        return {
            "decision": "block" if blocks(hook) else "proceed",
            "reason": f"it ran longer than {hook.timeout_ms} ms",
        }
    return decision_of(result.exit_code, stdout, stderr, blocking=blocks(hook))


async def _call_http(hook: Hook, told: dict[str, Any]) -> JSON:
    """A hook over HTTP lets everything pass when it cannot be reached."""
    import asyncio

    def post() -> str:
        import urllib.request

        headers = {"Content-Type": "application/json"} | hook.headers
        request = urllib.request.Request(hook.url, msgspec.json.encode(told), headers, method="POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=hook.timeout_ms / 1000) as answer:  # noqa: S310 - the person's own URL
            return str(answer.read(64 * 1024).decode("utf-8", "replace"))

    try:
        text = await asyncio.get_running_loop().run_in_executor(None, post)
    except (OSError, ValueError) as error:
        return {"decision": "proceed", "reason": f"not reached: {error}"}
    return decision_of(0, text, "", blocking=False)
