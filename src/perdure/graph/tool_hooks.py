"""Hooks around the use of a tool: a command node's script, or whatever else a node's work calls.

`before` and `after` are the one place that calls them. They are called around each execution: one that was cut by a kill and begins
anew calls its hooks again, with the count of executions in the calls' place in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.graph.hook_rules import Call, Decision
from perdure.graph.options import Hook

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import RunContext

_TAIL = 2_000


class ToolUse(msgspec.Struct, frozen=True):
    """A tool that is about to be used. `execution` counts how often this very use was begun before, by earlier owners too."""

    node: Any
    name: str
    input: dict[str, Any]
    execution: int = 0


async def before(run: RunContext, runtime: Runtime, use: ToolUse) -> Decision | None:
    """Call `pre_tool_use` and the graph's `tool_hooks.pre`; what keeps the tool from being used, if anything does."""
    if not runtime.hooks.wants_tools(use.node):
        return None
    scope = run.scope(f"+tool-{use.execution}")
    decision = await runtime.hooks.fire_call(scope, _call("pre_tool_use", use))
    return decision if decision is not None and decision.decision in ("skip", "block") else None


async def after(run: RunContext, runtime: Runtime, use: ToolUse, *, failure: str | None, output: str) -> str | None:
    """Call `post_tool_use`, or `post_tool_use_failure` when there is a failure, and `tool_hooks.post`; why it is blocked, if it is."""
    if not runtime.hooks.wants_tools(use.node):
        return None
    # A scope of its own: what the hooks are told differs from execution to execution.
    scope = run.scope(f"+tool-{use.execution}-after")
    more = {"output": output[-_TAIL:]} | ({} if failure is None else {"failure": failure[-_TAIL:]})
    event = "post_tool_use" if failure is None else "post_tool_use_failure"
    decision = await runtime.hooks.fire_call(scope, _call(event, use, more))
    return decision.reason if decision is not None and decision.decision == "block" else None


def _call(event: str, use: ToolUse, more: dict[str, Any] | None = None) -> Call:
    about = {"tool_name": use.name, "tool_input": use.input} | (more or {})
    return Call(event, use.node.id, use.node.handler, tool=use.name, about=about)


def declared(node: Node, graph: Any, event: str) -> Hook | None:
    """The hook that the graph declares for a tool's event: the node's attribute beats the graph's."""
    key = "tool_hooks.pre" if event == "pre_tool_use" else "tool_hooks.post"
    command = node.text(key) or graph.text(key)
    return Hook(event=event, command=command, name=key) if command.strip() else None
