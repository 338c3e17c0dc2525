"""command: runs the node's script; 0 is a success."""

from perdure.graph.failures import classify
from perdure.graph.outcome import NodeOutcome, failed, try_again
from perdure.graph.runtime import Visit
from perdure.graph.scripts import run_script
from perdure.graph.variables import expand_goal

DEFAULT_TIMEOUT_MS = 600_000


async def run(visit: Visit) -> NodeOutcome:
    """Its outputs go to `command.output` and `command.stderr`. A timeout may be tried again, an exit code other than 0 not."""
    node = visit.node
    script = expand_goal(node.text("script"), "$PERDURE_GOAL")
    if not script.strip():
        return failed(f"Command node {node.id} has no script.")
    timeout_ms = node.duration_ms("timeout") or DEFAULT_TIMEOUT_MS
    ended = await run_script(
        visit.op, visit.runtime, visit.place, script, node.text("language") or "shell", timeout_ms, node_id=node.id
    )
    updates = {
        "command.output": ended.stdout,
        "command.stderr": ended.stderr,
        "command.exit_code": ended.result.exit_code,
        "tool.output": ended.stdout,
        "last_stage": node.id,
    }
    if ended.result.timed_out:
        return try_again(f"The script of {node.id} ran longer than {timeout_ms / 1000:g} s.", context_updates=updates)
    if ended.result.exit_code != 0:
        message = f"The script of {node.id} failed: {ended.why}"
        return failed(
            message, classify(ended.stderr[-2_000:]) if ended.stderr else "deterministic", context_updates=updates
        )
    return NodeOutcome("succeeded", context_updates=updates)
