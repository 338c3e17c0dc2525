"""`agent.tool`: one call of a tool as a recorded step. Its input is `{name, arguments, call_id}`, its result
`{text, is_error, saw, blob?}`; a finished call never runs again.

The loop of an agent opens its context at each interpretation (`open_context`), calls tools by `call_tool`, and closes the context in
the end. A call whose owner died is run again when that is harmless; else what the dead owner started is ended, and the model is
told that the call may have run.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.agents.tools.tool import Invocation, Toolbox, ToolContext, ToolOutcome, remember
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


# By run id and the path of the agent's step.
contexts: dict[str, Open] = {}


@contextmanager
def open_context(scope: RunContext, context: ToolContext, toolbox: Toolbox) -> Iterator[Open]:
    """Make the context known to the steps below this scope."""
    private_folder(context.scratch)
    key = _key(scope.run_id, scope.path)
    opened = contexts[key] = Open(context, toolbox)
    try:
        yield opened
    finally:
        contexts.pop(key, None)


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
    name, call_id = str(input["name"]), str(input["call_id"])
    tool = opened.toolbox.find(name)
    if op.was_interrupted:
        await _end_started(op)
        if tool is not None and not tool.is_repeatable:
            return {"text": INTERRUPTED, "is_error": True, "saw": []}

    async def started(group: Group) -> None:
        about = {"tool": name, "call_id": call_id, "process_group": msgspec.to_builtins(group)}
        op.emit("agent.tool.started", about, again=True)
        await op.flush()

    invocation = Invocation(
        context=opened.context,
        call_id=call_id,
        keep_text=op.keep_text,
        read_kept=lambda value: str(op.resolve(value)),
        on_started=started,
        was_interrupted=op.was_interrupted,
    )
    return _recorded(op, await opened.toolbox.run(name, str(input["arguments"]), invocation))


def find_context(run_id: str, step_id: str) -> Open:
    """The context of the agent step that this step lies in."""
    path = step_id
    while path:
        found = contexts.get(_key(run_id, path))
        if found is not None:
            return found
        path = os.path.dirname(path)
    return contexts[_key(run_id, "")]


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
        group = msgspec.convert(event["process_group"], Group)
        survivors = await loop.run_in_executor(None, end_leftovers, group)
        if survivors:
            about = {"level": "warn", "code": "leftover_processes", "message": f"These would not end: {survivors}."}
            op.emit("run.notice", about, again=True)
