"""From node to node: visits, edges, gates, limits, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from perdure.graph import failures, routing, workspace
from perdure.graph.context import StageRecord
from perdure.graph.edges import Choice
from perdure.graph.outcome import NodeOutcome
from perdure.graph.visiting import hooked_visit, visit_node
from perdure.kernel.outcome import Failure, Outcome

if TYPE_CHECKING:
    from perdure.graph.model import Node
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import RunContext

# Without any limit of its own a graph stops here: a loop that turns so often is stuck.
DEFAULT_VISITS = 500
DRY_RUN_VISITS = 10


class Walker:
    """Walks the main line of one run."""

    def __init__(self, run: RunContext, runtime: Runtime) -> None:
        self._run = run
        self._runtime = runtime
        self._graph = runtime.graph
        self._hooks = runtime.hooks
        # Why a hook does not let the run take the edge that was chosen last.
        self._blocked: str | None = None

    async def walk(self) -> Outcome:
        """From the start to the exit, or to where there is no way on."""
        [node] = self._graph.by_handler("start")
        while True:
            if node.handler == "exit":
                ended = await self._arrive(node)
                if isinstance(ended, Outcome):
                    return ended
                node = ended
                continue
            stuck = self._over_limit(node)
            if stuck is not None:
                return self._failure(stuck, "structural", reason="visit_limit")
            outcome, choice = await self._visit(node)
            stopped = self._count_failure(node, outcome)
            if stopped is not None:
                return self._failure(stopped, "deterministic", reason="signature_limit")
            if self._blocked is not None:
                return self._failure(self._blocked, "deterministic", reason="blocked_by_hook")
            if choice is None:
                return self._no_way_on(node, outcome)
            blocked = self._restart(node, outcome, choice)
            if blocked is not None:
                return self._failure(blocked, "deterministic", reason="loop_restart_blocked")
            node = self._graph.nodes[choice.target]

    async def _visit(self, node: Node) -> tuple[NodeOutcome, Choice | None]:
        runtime, state = self._runtime, self._runtime.state
        runtime.current = node
        number = state.visits.get(node.id, 0) + 1
        state.visits[node.id] = number
        outcome = await hooked_visit(self._run, runtime, runtime.main, node, number)
        state.take(node.id, outcome)
        note_stage(state.stages, node, outcome, number)
        state.branches += branch_stages(node, outcome)
        if runtime.options.artifacts:
            from perdure.graph.capture import capture

            await capture(self._run, runtime, runtime.main, node, number, outcome)
        choice = await routing.choose(self._run, runtime, runtime.main, node, outcome)
        if choice is not None:
            choice = await self._hooked(node, choice)
        if choice is not None:
            self._run.emit("edge.selected", routing.told(node, choice, outcome))
        runtime.main.edge = choice.edge if choice else None
        await self._checkpoint(node, outcome, choice)
        return outcome, choice

    async def _hooked(self, node: Node, choice: Choice) -> Choice | None:
        """A hook may send the run another way, or not let it go on."""
        decision = await self._hooks.fire(self._run, "edge_selected", node.id, choice.target)
        if decision is None or decision.decision == "skip":
            return choice
        if decision.decision == "block":
            self._blocked = decision.reason
            return None
        if decision.edge_to not in self._graph.nodes:
            self._blocked = f"{decision.reason} (there is no node {decision.edge_to!r} to go to)"
            return None
        return Choice(decision.edge_to, "jump")

    async def _checkpoint(self, node: Node, outcome: NodeOutcome, choice: Choice | None) -> None:
        state = self._runtime.state
        shown, large = state.take_changes()
        properties = {
            "node_id": node.id,
            "step_id": node.id if state.visits[node.id] == 1 else f"{node.id}@{state.visits[node.id]}",
            "status": outcome.status,
            "current_node": node.id,
            "completed": node.id,
            "next_node_id": choice.target if choice else None,
            "context_values_set": shown,
            "node_outcomes_set": {node.id: outcome.status},
            "node_visits_set": {node.id: state.visits[node.id]},
            "loop_failure_signatures": state.loop_signatures,
            "restart_failure_signatures": state.restart_signatures,
        }
        if node.id in state.retries:
            properties["node_retries_set"] = {node.id: state.retries[node.id]}
        if large:
            properties["offloaded"] = large
        self._run.emit("checkpoint.completed", properties)
        await workspace.checkpoint(self._run, self._runtime, node, outcome.status)
        self._blocked = await self._hooks.blocked(self._run, "checkpoint_saved", node.id) or self._blocked

    def _over_limit(self, node: Node) -> str | None:
        """Why the node may not be visited again."""
        visits = self._runtime.state.visits.get(node.id, 0)
        own = node.integer("max_visits") or 0
        shared = self._graph.integer("max_node_visits") or 0
        default = DRY_RUN_VISITS if self._runtime.options.dry_run else DEFAULT_VISITS
        limit, whose = (own, "the node's") if own else (shared, "the graph's") if shared else (default, "the built-in")
        if visits < limit:
            return None
        last = next((stage.failure for stage in reversed(self._runtime.state.stages) if stage.failure), None)
        same = f" The last failure: {last}" if last else ""
        return f"Node {node.id} was visited {visits} times, {whose} limit: the run is stuck in a cycle.{same}"

    def _count_failure(self, node: Node, outcome: NodeOutcome) -> str | None:
        """Count a failure that another try cannot mend; why the run ends when it came too often."""
        if outcome.failure is None or outcome.status != "failed":
            return None
        state = self._runtime.state
        signature = failures.signature(node.id, outcome.failure)
        state.set({"failure_signature": signature})
        if outcome.failure.failure_class not in failures.COUNTED:
            return None
        limit = self._graph.integer("loop_restart_signature_limit") or 0
        count = state.loop_signatures.get(signature, 0) + 1
        state.loop_signatures[signature] = count
        if limit and count >= limit:
            return f"The same failure came {count} times (limit {limit}): {signature}"
        return None

    def _restart(self, node: Node, outcome: NodeOutcome, choice: Choice) -> str | None:
        """Cross a `loop_restart` edge; why it may not be crossed."""
        if choice.edge is None or not choice.edge.flag("loop_restart"):
            return None
        state = self._runtime.state
        failure = outcome.failure
        if outcome.status == "failed" and failure is not None:
            if failure.failure_class != "transient_infra":
                return f"loop_restart blocked: {node.id} failed with {failure.failure_class}: {failure.message}"
            signature = failures.signature(node.id, failure)
            count = state.restart_signatures.get(signature, 0) + 1
            state.restart_signatures[signature] = count
            limit = self._graph.integer("loop_restart_signature_limit") or 0
            if limit and count >= limit:
                return f"loop_restart blocked: the same failure came {count} times (limit {limit}): {signature}"
        state.restart()
        self._run.emit("loop.restart", {"from_node": node.id, "to_node": choice.target})
        self._run.emit("checkpoint.completed", {"reset": True, "next_node_id": choice.target})
        return None

    # The end

    async def _arrive(self, node: Node) -> Outcome | Node:
        """At the exit: the goal gates decide whether it is the end."""
        state = self._runtime.state
        open_gate = routing.unmet_gate(self._graph, state.outcomes)
        if open_gate is not None:
            gate, why = open_gate
            target = routing.retry_target(self._graph, gate)
            if target is None or state.outcomes.get(gate.id) is None:
                message = f"Goal gate {gate.id} {why}, and there is no retry target that mends it."
                return self._failure(message, "deterministic", reason="goal_gate")
            told = {
                "from_node": node.id,
                "to_node": target,
                "reason": "jump",
                "is_jump": True,
                "label": f"goal gate {gate.id}",
            }
            self._run.emit("edge.selected", told)
            self._runtime.main.edge = None
            return self._graph.nodes[target]
        state.visits[node.id] = state.visits.get(node.id, 0) + 1
        await visit_node(self._run, self._runtime, self._runtime.main, node, state.visits[node.id])
        if self._runtime.dialect.exit_is_current:
            told = {
                "current_node": node.id,
                "completed": node.id,
                "next_node_id": None,
                "node_outcomes_set": {node.id: "succeeded"},
            }
            self._run.emit("checkpoint.completed", told)
        return self._success()

    def _success(self) -> Outcome:
        statuses = [stage.status for stage in self._runtime.state.stages]
        partial = "partially_succeeded" in statuses
        return Outcome(
            "partially_succeeded" if partial else "succeeded",
            "partial_success" if partial else "completed",
            output=self._output(),
        )

    def _no_way_on(self, node: Node, outcome: NodeOutcome) -> Outcome:
        if outcome.status != "failed":
            return self._success()
        cause = outcome.failure or Failure("it failed.")
        message = f"Node {node.id} failed and has no outgoing fail edge: {cause.message}"
        return Outcome("failed", "workflow_error", msgspec.structs.replace(cause, message=message), self._output())

    def _failure(self, message: str, failure_class: str, *, reason: str) -> Outcome:
        return Outcome("failed", reason, Failure(message, failure_class, code=reason), self._output())  # type: ignore[arg-type]

    def _output(self) -> dict[str, object]:
        context = self._runtime.state.context
        return {"last_response": context.get("last_response", ""), "last_stage": context.get("last_stage", "")}


def note_stage(stages: list[StageRecord], node: Node, outcome: NodeOutcome, number: int) -> None:
    """Remember a visit for preambles and the retrospective."""
    detail = outcome.response or str(outcome.context_updates.get("command.output", ""))
    stages.append(
        StageRecord(
            step=node.id if number == 1 else f"{node.id}@{number}",
            node_id=node.id,
            label=node.label,
            handler=node.handler,
            status=outcome.status,
            notes=outcome.notes,
            failure=outcome.failure_reason or None,
            retries=outcome.retries,
            duration_ms=outcome.duration_ms,
            files_touched=outcome.files_touched,
            detail="\n".join(detail.splitlines()[-25:])[-8_000:],
            cost=_number((outcome.usage or {}).get("cost")),
        )
    )


def branch_stages(node: Node, outcome: NodeOutcome) -> list[StageRecord]:
    """What the branches of a parallel node came to, for the retrospective; none for any other node."""
    found = outcome.context_updates.get("parallel.results") if node.handler == "parallel" else None
    records = []
    for each in found if isinstance(found, list) else ():
        last = str(each.get("last_node") or each["id"])
        records.append(
            StageRecord(
                step=f"{node.id}/{each['id']}",
                node_id=last,
                label=last,
                handler="branch",
                status=str(each["status"]),
                notes=each.get("notes"),
                failure=each.get("failure"),
                retries=int(each.get("retries", 0)),
                duration_ms=int(each.get("duration_ms", 0)),
                files_touched=[],
                detail="",
            )
        )
    return records


def _number(value: object) -> float | None:
    """A figure that a backend reported, if it is one."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
