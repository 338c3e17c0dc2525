"""command: runs the node's script; 0 is a success."""

from typing import Any

from perdure.graph import tool_hooks
from perdure.graph.failures import classify
from perdure.graph.model import Node
from perdure.graph.outcome import NodeOutcome, failed, try_again
from perdure.graph.runtime import Visit
from perdure.graph.scripts import Ended, run_script
from perdure.graph.tool_hooks import ToolUse
from perdure.graph.variables import expand_goal

DEFAULT_TIMEOUT_MS = 600_000


async def run(visit: Visit) -> NodeOutcome:
    """Its outputs go to `command.output` and `command.stderr`. A timeout may be tried again, an exit code other than 0 not."""
    node = visit.node
    script = expand_goal(node.text("script"), "$PERDURE_GOAL")
    if not script.strip():
        return failed(f"Command node {node.id} has no script.")
    timeout_ms = node.duration_ms("timeout") or DEFAULT_TIMEOUT_MS
    language = node.text("language") or "shell"
    use = ToolUse(node, "command", {"script": script, "language": language}, len(visit.op.recorded("command.started")))
    refused = await tool_hooks.before(visit.op, visit.runtime, use)
    if refused is not None:
        is_skip = refused.decision == "skip"
        return NodeOutcome("skipped", notes=refused.reason) if is_skip else failed(refused.reason)
    ended = await run_script(visit.op, visit.runtime, visit.place, script, language, timeout_ms, node_id=node.id)
    updates = {
        "command.output": ended.stdout,
        "command.stderr": ended.stderr,
        "command.exit_code": ended.result.exit_code,
        "tool.output": ended.stdout,
        "last_stage": node.id,
    }
    outcome = _outcome(node, ended, timeout_ms, updates)
    why = None if outcome.is_good else outcome.failure_reason
    blocked = await tool_hooks.after(visit.op, visit.runtime, use, failure=why, output=ended.stdout)
    return outcome if blocked is None else failed(blocked, context_updates=updates)


def _outcome(node: Node, ended: Ended, timeout_ms: int, updates: dict[str, Any]) -> NodeOutcome:
    if ended.result.timed_out:
        return try_again(f"The script of {node.id} ran longer than {timeout_ms / 1000:g} s.", context_updates=updates)
    if ended.result.exit_code != 0:
        message = f"The script of {node.id} failed: {ended.why}"
        return failed(
            message, classify(ended.stderr[-2_000:]) if ended.stderr else "deterministic", context_updates=updates
        )
    return NodeOutcome("succeeded", context_updates=updates)
