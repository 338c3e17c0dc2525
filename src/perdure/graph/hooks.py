"""Calling hooks: programs and URLs that are told of events of a run. Each call is a recorded step, so a resumed run does not repeat it.

What a hook is and what its answer means: `hook_rules.py`.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.disk.atomic import private_folder
from perdure.graph.hook_rules import Call, Decision, blocks, canonical, decision_of, failure_of, wants
from perdure.graph.tool_hooks import declared
from perdure.kernel.operation import StepFailed, operation

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.options import Hook
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import OperationContext, RunContext
    from perdure.sandbox.groups import Group

_MAX_ANSWER = 64 * 1024
_TOOL_EVENTS = ("pre_tool_use", "post_tool_use", "post_tool_use_failure")
# The number of a hook that the graph declares itself.
_DECLARED = -1


class Hooks:
    """The hooks of one run."""

    def __init__(self, runtime: Runtime) -> None:
        self._hooks = [] if runtime.options.dry_run else runtime.options.hooks
        self._runtime = runtime

    async def fire(self, run: RunContext, event: str, node_id: str = "", target: str | None = None) -> Decision | None:
        """Call the hooks of an event, in their order; the first decision that counts and is not to proceed, if there is one."""
        if not self._hooks:
            return None
        node = self._runtime.graph.nodes.get(node_id)
        return await self.fire_call(run, Call(event, node_id, node.handler if node else "", target))

    async def fire_call(self, run: RunContext, call: Call) -> Decision | None:
        """The same for an event that is described already."""
        found = [*enumerate(self._hooks)]
        own = self._declared(call)
        if own is not None:
            found.append((_DECLARED, own))
        for number, hook in found:
            if not wants(hook, call):
                continue
            decision = await self._call(run, number, hook, call)
            if decision.failed:
                _notice(run, "hook_failed", f"Hook {_name(hook)} of {call.event} failed: {decision.reason}")
            if decision.decision != "proceed" and blocks(hook):
                reason = f"Hook {_name(hook)} says {decision.decision} at {call.event}: {decision.reason or 'no reason given'}"
                return msgspec.structs.replace(decision, reason=reason)
        return None

    def wants_tools(self, node: Node) -> bool:
        """Whether anything is called when this node uses a tool."""
        if self._runtime.options.dry_run:
            return False
        return any(canonical(hook.event) in _TOOL_EVENTS for hook in self._hooks) or any(
            declared(node, self._runtime.graph, event) for event in _TOOL_EVENTS
        )

    def _declared(self, call: Call) -> Hook | None:
        if call.event not in _TOOL_EVENTS:
            return None
        return declared(self._runtime.graph.nodes[call.node_id], self._runtime.graph, call.event)

    def find(self, number: int, event: str, node_id: str) -> Hook:
        """The hook that a recorded call names."""
        if number != _DECLARED:
            return self._runtime.options.hooks[number]
        found = self._declared(Call(event, node_id))
        assert found is not None
        return found

    async def blocked(self, run: RunContext, event: str, node_id: str = "") -> str | None:
        """Call the hooks of an event that can only be blocked; why it is, if it is."""
        decision = await self.fire(run, event, node_id)
        return decision.reason if decision is not None and decision.decision == "block" else None

    async def _call(self, run: RunContext, number: int, hook: Hook, call: Call) -> Decision:
        input: dict[str, JSON] = {
            "hook": number,
            "event": call.event,
            "node_id": call.node_id,
            "target": call.target,
        }
        if call.about:
            input["about"] = call.about
        try:
            return msgspec.convert(await run.step("+hook", "graph.hook", input), Decision)
        except StepFailed as error:
            return failure_of(hook, error.failure.message)


def _name(hook: Hook) -> str:
    return hook.name or hook.command or hook.url


def _notice(run: RunContext, code: str, message: str) -> None:
    run.emit("run.notice", {"level": "warn", "code": code, "message": message})


@operation("graph.hook")
async def call_hook(op: OperationContext, input: dict[str, Any]) -> JSON:
    """One call of one hook."""
    runtime: Runtime = op.local
    hook = runtime.hooks.find(input["hook"], input["event"], input["node_id"])
    if op.was_interrupted:
        from perdure.graph.recovery import end_started

        await end_started(op)
    told = {
        "event": hook.event,
        "run_id": runtime.run_id,
        "workflow": runtime.graph.name,
        "node_id": input["node_id"],
        "target": input["target"],
        "run_dir": runtime.run_dir,
        **input.get("about", {}),
    }
    call = _call_http(hook, told) if hook.type == "http" else _call_command(op, runtime, hook, told)
    decision: dict[str, JSON] = msgspec.to_builtins(await call)
    return decision


async def _call_command(op: OperationContext, runtime: Runtime, hook: Hook, told: dict[str, Any]) -> Decision:
    from perdure.base.names import file_name
    from perdure.graph.scripts import place_environment
    from perdure.sandbox.command import CommandSpec, run_command, script_argv, tail_text

    folder = os.path.join(runtime.run_dir, "cache", "spool")
    private_folder(folder)
    base = os.path.join(folder, file_name(op.step_id))
    more = {
        "PERDURE_EVENT": told["event"], "PERDURE_RUN_ID": told["run_id"], "PERDURE_WORKFLOW": told["workflow"],
        "PERDURE_NODE_ID": told["node_id"] or "", "PERDURE_HOOK_CONTEXT": msgspec.json.encode(told).decode(),
        "PERDURE_TOOL_NAME": str(told.get("tool_name", "")),
    }  # fmt: skip

    async def started(group: Group) -> None:
        about = {"hook": _name(hook), "hook_event": hook.event, "node_id": told["node_id"]}
        op.emit("hook.started", about | {"process_group": msgspec.to_builtins(group)}, again=True)
        await op.flush()

    spec = CommandSpec(
        argv=script_argv(hook.command, "shell"),
        cwd=runtime.main.work_dir if os.path.isdir(runtime.main.work_dir) else runtime.run_dir,
        env=place_environment(runtime, more),
        stdin=msgspec.json.encode(told),
        timeout_ms=hook.timeout_ms,
    )
    new_filter = op.mask.stream if op.mask is not None else None
    stdout, stderr = f"{base}.stdout", f"{base}.stderr"
    try:
        result = await run_command(
            spec, stdout_path=stdout, stderr_path=stderr, new_filter=new_filter, on_started=started
        )
        if result.timed_out:
            return failure_of(hook, f"it ran longer than {hook.timeout_ms} ms")
        return decision_of(
            hook, result.exit_code, tail_text(stdout, max_bytes=_MAX_ANSWER, lines=10**6), tail_text(stderr)
        )
    finally:
        for path in (stdout, stderr):
            if os.path.exists(path):
                os.unlink(path)


async def _call_http(hook: Hook, told: dict[str, Any]) -> Decision:
    """The decision in the answer. It is asked for in a thread that nobody waits for longer than the hook's time limit."""
    import threading

    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def post() -> None:
        text, failure = "", None
        try:
            text = _post(hook, msgspec.json.encode(told))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in the thread is the hook's failure
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, answered, text, failure)

    threading.Thread(target=post, name="perdure-hook", daemon=True).start()
    try:
        text = await asyncio.wait_for(answered, hook.timeout_ms / 1000)
    except TimeoutError:
        return failure_of(hook, f"{hook.url} did not answer in {hook.timeout_ms} ms")
    except Exception as error:  # noqa: BLE001 - the thread's failure, of a kind that only the HTTP library knows
        return failure_of(hook, f"{hook.url} gave no answer: {str(error) or type(error).__name__}")
    return decision_of(hook, 0, text, "")


def _settle(answered: asyncio.Future[str], text: str, failure: Exception | None) -> None:
    if answered.done():
        return
    if failure is None:
        answered.set_result(text)
    else:
        answered.set_exception(failure)


def _post(hook: Hook, body: bytes) -> str:
    import urllib.error
    import urllib.request

    from perdure.graph.hook_rules import header_values

    headers = {"Content-Type": "application/json"} | header_values(hook, dict(os.environ))
    request = urllib.request.Request(hook.url, body, headers, method="POST")  # noqa: S310 - checked when it was read
    try:
        with urllib.request.urlopen(request, timeout=hook.timeout_ms / 1000) as answer:  # noqa: S310 - the person's own URL
            return str(answer.read(_MAX_ANSWER).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        # The error is an open answer too.
        error.close()
        raise OSError(f"HTTP status {error.code}") from None
