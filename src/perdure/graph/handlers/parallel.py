"""parallel: one branch an outgoing edge, each with its own copy of the context and, in Git, a worktree of its own.

A `.fabro` branch executes just the edge's target, then all go on at the node where they meet. A `.dot` branch walks on until it
reaches the fan-in. What the branches changed is merged where they meet.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.base.names import file_name
from perdure.disk.atomic import private_folder
from perdure.git.worktree import parallel_branch
from perdure.graph import joining, routing
from perdure.graph.context import State
from perdure.graph.outcome import NodeOutcome, failed
from perdure.graph.runtime import Place, Visit
from perdure.graph.visiting import hooked_visit
from perdure.kernel.operation import operation

if TYPE_CHECKING:
    from perdure.graph.model import Edge, Node
    from perdure.kernel.context import OperationContext, RunContext

_WALK_LIMIT = 200


class BranchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one branch came to: the outcome of its last node, what it answered, and its commit."""

    id: str
    status: str
    notes: str | None = None
    failure: str | None = None
    output: str = ""
    score: float = 0.0
    head_sha: str | None = None
    context: dict[str, Any] = {}
    last_node: str = ""
    duration_ms: int = 0
    retries: int = 0

    @property
    def is_good(self) -> bool:
        """Whether its work counts."""
        return self.status in ("succeeded", "partially_succeeded")


class _Enough(Exception):
    """The join policy needs no more branches."""


async def run(visit: Visit) -> NodeOutcome:
    """Executes the branches, at most `max_parallel` at once."""
    node, graph, op = visit.node, visit.runtime.graph, visit.op
    edges = graph.outgoing(node.id)
    if not edges:
        return failed(f"Parallel node {node.id} has no branches.", "structural")
    join = joining.join_for(node, len(edges), visit.runtime.dialect)
    meeting = joining.join_of(graph, node, walks=visit.runtime.dialect.branch_walks)
    op.emit(
        "parallel.started",
        {"node_id": node.id, "visit": visit.number, "branch_count": len(edges), "join_policy": join.policy},
    )
    refused = await visit.runtime.hooks.blocked(op, "parallel_start", node.id)
    if refused is not None:
        return failed(refused)
    results = await _gathered(visit, edges, join, meeting)
    ordered = [results[edge.target] for edge in edges if edge.target in results]
    captured = {each for result in ordered for each in visit.runtime.places[f"{op.path}/{result.id}"].captured}
    outcome = await _joined(visit, edges, ordered, meeting, join)
    return outcome.but(captured=sorted(captured - visit.place.captured))


async def _gathered(
    visit: Visit, edges: list[Edge], join: joining.Join, meeting: str | None
) -> dict[str, BranchResult]:
    """What the branches came to: all of them, or those that had ended when they were enough."""
    node, op = visit.node, visit.op
    results: dict[str, BranchResult] = {}
    taken = _taken_before(op)

    async def branch(index: int, edge: Edge) -> None:
        result = await _branch(visit, edge, index, meeting)
        results[result.id] = result
        good = sum(each.is_good for each in results.values())
        bad = sum(each.status == "failed" for each in results.values())
        if taken is None and join.is_enough(good, bad):
            raise _Enough

    wanted = [(index, edge) for index, edge in enumerate(edges) if taken is None or edge.target in taken]
    try:
        await op.gather([lambda i=i, e=e: branch(i, e) for i, e in wanted], node.integer("max_parallel") or 4)
    except _Enough:
        pass
    return results


def _taken_before(op: OperationContext) -> set[str] | None:
    """The branches that an earlier owner took for enough: which of several that is depends on time, so it is recorded."""
    told = op.recorded("parallel.completed")
    if not told:
        return None
    results = op.resolve(told[0].get("results"))
    return {str(each["id"]) for each in results if isinstance(each, dict)} if isinstance(results, list) else None


async def _branch(visit: Visit, edge: Edge, index: int, meeting: str | None) -> BranchResult:
    """One branch, from its first node to where the branches meet."""
    runtime, op = visit.runtime, visit.op
    path = f"{op.path}/{edge.target}"
    state = _copied(visit.place.state)
    captured = set(visit.place.captured)
    place = Place(path, state, visit.place.work_dir, visit.place.worktree, edge, captured)
    runtime.places[path] = place
    # What belongs to one branch has a scope of its own, so that its events are told once in whatever order branches end.
    own = op.scope(f"+{edge.target}")
    own.emit("parallel.branch.started", {"node_id": edge.target, "index": index, "parallel": visit.node.id})
    if runtime.git:
        place.worktree = await _own_worktree(visit, own, edge)
        place.work_dir = runtime.inside(place.worktree)
    scope = own if runtime.dialect.branch_walks else op
    outcome, last = await _walk(visit, scope, own, place, runtime.graph.nodes[edge.target], meeting)
    head = await _commit_branch(visit, own, place, edge, outcome) if runtime.git else None
    result = BranchResult(
        id=edge.target,
        status=outcome.status,
        notes=outcome.notes,
        failure=outcome.failure_reason or None,
        output=outcome.response or str(outcome.context_updates.get("command.output", "")),
        score=last.number("score") or float(outcome.context_updates.get("score") or 0),
        head_sha=head,
        context=dict(outcome.context_updates),
        last_node=last.id,
        duration_ms=outcome.duration_ms,
        retries=outcome.retries,
    )
    told = {
        "node_id": edge.target,
        "index": index,
        "status": result.status,
        "head_sha": head,
        "duration_ms": outcome.duration_ms,
    }
    own.emit("parallel.branch.completed", told)
    return result


async def _walk(
    visit: Visit, scope: RunContext, own: RunContext, place: Place, node: Node, meeting: str | None
) -> tuple[NodeOutcome, Node]:
    """The outcome of the branch's last node. Only a walking branch goes on after its first."""
    runtime = visit.runtime
    counts: dict[str, int] = {}
    while True:
        counts[node.id] = counts.get(node.id, 0) + 1
        outcome = await hooked_visit(scope, runtime, place, node, counts[node.id], beside=own)
        place.state.take(node.id, outcome)
        if runtime.options.artifacts:
            from perdure.graph.capture import capture

            await capture(own, runtime, place, node, counts[node.id], outcome)
        if not runtime.dialect.branch_walks:
            return outcome, node
        choice = await routing.choose(own, runtime, place, node, outcome)
        if (
            choice is None
            or choice.target == meeting
            or runtime.graph.nodes[choice.target].handler in ("parallel.fan_in", "exit")
        ):
            return outcome, node
        if sum(counts.values()) >= _WALK_LIMIT:
            return failed(
                f"The branch of {node.id} walked {_WALK_LIMIT} nodes without reaching a fan-in.", "structural"
            ), node
        place.edge = choice.edge
        node = runtime.graph.nodes[choice.target]


def _copied(state: State) -> State:
    """A state of its own for a branch: what it changes is not seen by the others."""
    fresh = copy.copy(state)
    fresh.context = copy.deepcopy(state.context)
    fresh.conversations = dict(state.conversations)
    fresh.changed = {}
    fresh.outcomes = dict(state.outcomes)
    fresh.completed = list(state.completed)
    fresh.stages = list(state.stages)
    fresh.visits = dict(state.visits)
    return fresh


async def _joined(
    visit: Visit, edges: list[Edge], ended: list[BranchResult], meeting: str | None, join: joining.Join
) -> NodeOutcome:
    """The outcome of all branches together."""
    node, op = visit.node, visit.op
    good = [each for each in ended if each.is_good]
    bad = [each for each in ended if each.status == "failed"]
    shown: list[JSON] = [_shown(each) for each in ended]
    op.emit(
        "parallel.completed",
        {"node_id": node.id, "success_count": len(good), "failure_count": len(bad), "results": shown},
    )
    refused = await visit.runtime.hooks.blocked(op, "parallel_complete", node.id)
    # Failures that are to be ignored are told of in the event alone.
    results = good if join.errors == "ignore" and good else ended
    updates: dict[str, Any] = {
        "parallel.results": [_shown(each) for each in results],
        "parallel.branch_count": len(edges),
        "parallel.outputs": [each.output for each in results],
        "last_stage": node.id,
    }
    for each in results:
        updates |= {key: value for key, value in each.context.items() if key.startswith("response.")}
    meets = visit.runtime.graph.nodes[meeting] if meeting is not None else None
    fans_in = meets is not None and meets.handler == "parallel.fan_in"
    verdict = join.verdict(len(good), len(bad))
    if not good and fans_in and join.policy in joining.EVERYWHERE and join.errors != "fail_fast":
        verdict = "partially_succeeded"  # the fan-in says what it means that none succeeded
    if refused is not None:
        return failed(refused, context_updates=updates)
    if verdict == "failed":
        return failed(_shortfall(node, join, good, bad), context_updates=updates)
    conflicts = await _merge(visit, good, join.policy, chooses=meets is not None and _chooses(meets))
    if conflicts:
        return failed(
            f"Branches of {node.id} changed the same files differently: {', '.join(conflicts)}.",
            context_updates=updates,
        )
    reasons = None if good else _reasons(bad)
    return NodeOutcome(verdict, jump_to_node=meeting, context_updates=updates, notes=reasons)


def _shortfall(node: Node, join: joining.Join, good: list[BranchResult], bad: list[BranchResult]) -> str:
    if join.errors == "fail_fast" and bad:
        return f"A branch of {node.id} failed, and error_policy is fail_fast: {_reasons(bad)}"
    if not good:
        return f"No branch of {node.id} succeeded: {_reasons(bad)}"
    return f"{len(good)} branches of {node.id} succeeded, and {join.policy} needs {join.needed}: {_reasons(bad)}"


def _reasons(bad: list[BranchResult]) -> str:
    return "; ".join(f"{each.id}: {each.failure or each.status}" for each in bad) or "no branch ended"


def _shown(result: BranchResult) -> dict[str, JSON]:
    shown: dict[str, JSON] = msgspec.to_builtins(result)
    shown.pop("context", None)
    return shown


def _chooses(join: Node) -> bool:
    """Whether the fan-in names one winner, whose work alone is kept."""
    return join.handler == "parallel.fan_in" and bool(join.text("prompt"))


# Git


async def _own_worktree(visit: Visit, scope: RunContext, edge: Edge) -> str:
    """A worktree for one branch, from the run's last commit."""
    input = {"node": visit.node.id, "visit": visit.number, "target": edge.target}
    await scope.step("+worktree", "graph.branch_worktree", input)
    return branch_path(visit.runtime, visit.node.id, visit.number, edge.target)


def branch_path(runtime: Any, node: str, visit: int, target: str) -> str:
    """Where a branch's worktree lies."""
    return os.path.join(runtime.run_dir, "worktrees", f"{file_name(node)}-{visit}-{file_name(target)}")


def add_branch_worktree(work_dir: str, repository: str, path: str, branch: str) -> None:
    """Make a branch's worktree, or find it."""
    from perdure.git.command import git
    from perdure.git.worktree import add_worktree

    base = git(work_dir, "rev-parse", "HEAD").text
    private_folder(os.path.dirname(path))
    add_worktree(repository, path, branch, base)


@operation("graph.branch_worktree")
def make_branch_worktree(op: OperationContext, input: dict[str, Any]) -> JSON:
    """A worktree for one branch of a parallel node."""
    runtime = op.local
    node, visit, target = input["node"], input["visit"], input["target"]
    branch = parallel_branch(runtime.run_id, file_name(node), visit, file_name(target))
    add_branch_worktree(runtime.worktree, runtime.repository, branch_path(runtime, node, visit, target), branch)
    return None


async def _commit_branch(visit: Visit, scope: RunContext, place: Place, edge: Edge, outcome: NodeOutcome) -> str:
    name = os.path.basename(place.worktree)
    input = {"name": name, "node": edge.target, "status": outcome.status, "parallel": visit.op.path}
    sha = await scope.step("+commit", "graph.branch_commit", input)
    return str(sha)


@operation("graph.branch_commit")
async def commit_branch(op: OperationContext, input: dict[str, Any]) -> JSON:
    """What a branch did, as one commit."""
    from perdure.git.checkpoint import Checkpoint, commit_checkpoint

    runtime = op.local
    at_ms = await op.now_ms()
    number = len(runtime.state.stages)
    made = Checkpoint(runtime.run_id, f"{input['parallel']}/{input['node']}", input["status"], number, at_ms)
    return commit_checkpoint(os.path.join(runtime.run_dir, "worktrees", input["name"]), made, runtime.options.exclude)


async def _merge(visit: Visit, good: list[BranchResult], policy: str, *, chooses: bool) -> list[str]:
    """Bring the branches' work to the main line; the files in conflict. A winner that is still to be named is merged then."""
    heads = [each.head_sha for each in good if each.head_sha]
    if not visit.runtime.git or not heads or chooses:
        return []
    if policy == "first_success":
        heads = heads[:1]
    result = await visit.op.step(
        "+merge",
        "graph.merge",
        {"heads": list(heads), "message": f"join {visit.node.id}"},
    )
    assert isinstance(result, dict)
    conflicts = result["conflicts"]
    assert isinstance(conflicts, list)
    return [str(each) for each in conflicts]


@operation("graph.merge")
async def merge_branches(op: OperationContext, input: dict[str, Any]) -> JSON:
    """Merge branches into the run's worktree, and take their worktrees away."""
    from perdure.git.merge import merge_heads

    runtime = op.local
    at_ms = await op.now_ms()
    message = f"perdure({runtime.run_id}): {input['message']}"
    result = merge_heads(runtime.worktree, input["heads"], message, at_ms)
    remove_branch_worktrees(runtime)
    return {"sha": result.sha, "conflicts": [*result.conflicts]}


def remove_branch_worktrees(runtime: Any) -> None:
    """Worktrees of branches whose work is all committed are not needed any more."""
    from perdure.git.worktree import remove_worktree

    folder = os.path.join(runtime.run_dir, "worktrees")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        remove_worktree(runtime.repository, os.path.join(folder, name))
