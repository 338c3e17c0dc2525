"""`agent.tool`: one call of a tool as a recorded step. Its input is `{name, arguments, call_id}`, its result
`{text, is_error, saw, blob?}`; a finished call never runs again.

The loop of an agent opens its context at each interpretation (`open_context`), and calls tools by `call_tool`. A call is allowed
first (`authorizing`), in the same step: so the decision is recorded with the result. A call whose owner died runs again when that is
harmless, or when it had not begun; else what the dead owner started is ended, and the model is told that the call may have run.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.agents.tools.authorizing import Permissions, authorize
from perdure.agents.tools.tool import Invocation, Toolbox, ToolContext, ToolOutcome, remember
from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON
from perdure.disk.atomic import private_folder
from perdure.kernel import large
from perdure.kernel.operation import operation
from perdure.llm.protocol import ToolCall, ToolResult
from perdure.sandbox.groups import Group, end_leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.kernel.context import OperationContext, RunContext

INTERRUPTED = (
    "interrupted: it may have run, wholly or in part, and its output is lost. It was not run again. "
    "Look at what it did, then decide."
)


class Open(NamedTuple):
    """What the tools of one agent step work with."""

    context: ToolContext
    toolbox: Toolbox
    permissions: Permissions


# By run id and the path of the agent's step.
_contexts: dict[str, Open] = {}


@contextmanager
def open_context(scope: RunContext, context: ToolContext, toolbox: Toolbox, permissions: Permissions) -> Iterator[Open]:
    """Make the context known to the steps below this scope."""
    private_folder(context.scratch)
    key = _key(scope.run_id, scope.path)
    opened = _contexts[key] = Open(context, toolbox, permissions)
    try:
        yield opened
    finally:
        _contexts.pop(key, None)


async def call_tool(scope: RunContext, name: str, opened: Open, call: ToolCall) -> ToolResult:
    """Step `name` of the scope: the call's result, recorded, and remembered in the context whether it ran now or long ago."""
    input: dict[str, JSON] = {"name": call.name, "arguments": harmless_text(call.arguments), "call_id": call.id}
    result = await scope.step(name, "agent.tool", input)
    assert isinstance(result, dict)
    remember(opened.context, call.id, result)
    return ToolResult(call.id, str(result["text"]), bool(result["is_error"]))


def harmless_text(text: str) -> str:
    """The text as it can be recorded."""
    return text.encode("utf-8", "replace").decode()


@operation("agent.tool")
async def run_tool(op: OperationContext, input: dict[str, Any]) -> JSON:
    """Call the tool; what the model did wrong is an error result. Raises only for defects and for a disk that does not work."""
    opened = find_context(op.run_id, op.step_id)
    name, call_id, arguments = str(input["name"]), str(input["call_id"]), str(input["arguments"])
    tool = opened.toolbox.find(name)
    if op.was_interrupted:
        await _end_started(op)
        if tool is not None and not tool.is_repeatable and op.recorded("agent.tool.started"):
            return {"text": INTERRUPTED, "is_error": True, "saw": []}
    if tool is not None:
        refusal = await authorize(op, opened.permissions, tool, arguments)
        if refusal is not None:
            op.emit("agent.tool.refused", {"tool": name, "call_id": call_id, "reason": refusal})
            return {"text": refusal, "is_error": True, "saw": []}
    return _recorded(op, await opened.toolbox.run(name, arguments, _invocation(op, opened, name, call_id)))


def _invocation(op: OperationContext, opened: Open, name: str, call_id: str) -> Invocation:
    about: dict[str, JSON] = {"tool": name, "call_id": call_id}

    async def started(group: Group) -> None:
        op.emit("agent.tool.started", about | {"process_group": msgspec.to_builtins(group)}, again=True)
        await op.flush()

    async def begin() -> None:
        op.emit("agent.tool.started", about, again=True)
        await op.flush()

    return Invocation(
        context=opened.context,
        call_id=call_id,
        place=op.path,
        keep_text=op.keep_text,
        read_kept=lambda value: str(op.resolve(value)),
        on_started=started,
        begin=begin,
        was_interrupted=op.was_interrupted,
    )


def find_context(run_id: str, step_id: str) -> Open:
    """The context of the agent step that this step lies in. Raises `Refused` when none is open."""
    path = step_id
    while path:
        found = _contexts.get(_key(run_id, path))
        if found is not None:
            return found
        path = os.path.dirname(path)
    raise Refused(f"Step {step_id!r} of run {run_id} has no tools: its agent is not at work in this process.")


def _key(run_id: str, path: str) -> str:
    return f"{run_id}:{path}"


def _recorded(op: OperationContext, outcome: ToolOutcome) -> JSON:
    """The outcome as it is recorded. Secrets are taken out now, so that the model reads the same now and at every replay."""
    text = outcome.text
    if op.mask is not None:
        text = op.mask.mask(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    result: dict[str, JSON] = {
        "text": text,
        "is_error": outcome.is_error,
        "saw": [{"path": each.path, "digest": each.digest} for each in outcome.saw],
    }
    if large.is_reference(outcome.full_text):
        result["blob"] = outcome.full_text
    return result


async def _end_started(op: OperationContext) -> None:
    """End what the dead owner's call had started."""
    loop = asyncio.get_running_loop()
    for event in op.recorded("agent.tool.started"):
        if "process_group" not in event:
            continue
        group = msgspec.convert(event["process_group"], Group)
        survivors = await loop.run_in_executor(None, end_leftovers, group)
        if survivors:
            about = {"level": "warn", "code": "leftover_processes", "message": f"These would not end: {survivors}."}
            op.emit("run.notice", about, again=True)
