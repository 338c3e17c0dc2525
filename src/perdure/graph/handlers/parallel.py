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
from perdure.graph import routing
from perdure.graph.context import State
from perdure.graph.outcome import NodeOutcome, failed
from perdure.graph.runtime import Place, Visit
from perdure.graph.visiting import hooked_visit
from perdure.kernel.operation import operation

if TYPE_CHECKING:
    from perdure.graph.model import Edge, Graph, Node
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


class _Enough(Exception):
    """The join policy needs no more branches."""


async def run(visit: Visit) -> NodeOutcome:
    """Executes the branches, at most `max_parallel` at once."""
    node, graph, op = visit.node, visit.runtime.graph, visit.op
    edges = graph.outgoing(node.id)
    if not edges:
        return failed(f"Parallel node {node.id} has no branches.", "structural")
    policy = node.text("join_policy")
    join = join_of(graph, node, walks=visit.runtime.dialect.branch_walks)
    op.emit(
        "parallel.started",
        {"node_id": node.id, "visit": visit.number, "branch_count": len(edges), "join_policy": policy},
    )
    refused = await visit.runtime.hooks.blocked(op, "parallel_start", node.id)
    if refused is not None:
        return failed(refused)
    results: dict[str, BranchResult] = {}

    async def branch(index: int, edge: Edge) -> None:
        result = await _branch(visit, edge, index, join)
        results[result.id] = result
        if policy == "first_success" and result.status in ("succeeded", "partially_succeeded"):
            raise _Enough
        if node.text("error_policy") == "fail_fast" and result.status == "failed":
            raise _Enough

    try:
        await op.gather([lambda i=i, e=e: branch(i, e) for i, e in enumerate(edges)], node.integer("max_parallel") or 4)
    except _Enough:
        pass
    ordered = [results[edge.target] for edge in edges if edge.target in results]
    captured = {each for result in ordered for each in visit.runtime.places[f"{op.path}/{result.id}"].captured}
    outcome = await _joined(visit, edges, ordered, join, policy)
    return outcome.but(captured=sorted(captured - visit.place.captured))


async def _branch(visit: Visit, edge: Edge, index: int, join: str | None) -> BranchResult:
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
    outcome, last = await _walk(visit, scope, own, place, runtime.graph.nodes[edge.target], join)
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
    visit: Visit, scope: RunContext, own: RunContext, place: Place, node: Node, join: str | None
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
            or choice.target == join
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


def join_of(graph: Graph, node: Node, *, walks: bool) -> str | None:
    """Where the branches meet: the fan-in that all can reach first, else the node that all targets lead to."""
    targets = [edge.target for edge in graph.outgoing(node.id)]
    reach = [_distances(graph, target) for target in targets]
    common = set(reach[0]).intersection(*reach[1:]) - (set() if walks else set(targets)) if reach else set()
    if not common:
        return None
    fan_ins = {each for each in common if graph.nodes[each].handler == "parallel.fan_in"}
    candidates = fan_ins or common
    return min(candidates, key=lambda each: (max(distances[each] for distances in reach), each))


def _distances(graph: Graph, start: str) -> dict[str, int]:
    """How far each node is that can be reached."""
    found = {start: 0}
    waiting = [start]
    for current in waiting:
        for edge in graph.outgoing(current):
            if edge.target not in found and edge.target in graph.nodes:
                found[edge.target] = found[current] + 1
                waiting.append(edge.target)
    return found


async def _joined(
    visit: Visit, edges: list[Edge], results: list[BranchResult], join: str | None, policy: str
) -> NodeOutcome:
    """The outcome of all branches together."""
    node, op = visit.node, visit.op
    good = [each for each in results if each.status in ("succeeded", "partially_succeeded")]
    bad = [each for each in results if each.status == "failed"]
    shown: list[JSON] = [_shown(each) for each in results]
    op.emit(
        "parallel.completed",
        {"node_id": node.id, "success_count": len(good), "failure_count": len(bad), "results": shown},
    )
    refused = await visit.runtime.hooks.blocked(op, "parallel_complete", node.id)
    updates: dict[str, Any] = {
        "parallel.results": shown,
        "parallel.branch_count": len(edges),
        "parallel.outputs": [each.output for each in results],
        "last_stage": node.id,
    }
    for each in results:
        updates |= {key: value for key, value in each.context.items() if key.startswith("response.")}
    chooses = join is not None and _chooses(visit.runtime.graph.nodes[join])
    conflicts = await _merge(visit, good, policy, chooses=chooses)
    jump = join or None
    if conflicts:
        return failed(
            f"Branches of {node.id} changed the same files differently: {', '.join(conflicts)}.",
            context_updates=updates,
        )
    if refused is not None:
        return failed(refused, context_updates=updates)
    if not good:
        reasons = "; ".join(f"{each.id}: {each.failure or each.status}" for each in bad) or "no branch ended"
        if join is not None and visit.runtime.graph.nodes[join].handler == "parallel.fan_in":
            # The fan-in says what it means that none succeeded.
            return NodeOutcome("partially_succeeded", jump_to_node=jump, context_updates=updates, notes=reasons)
        return failed(f"No branch of {node.id} succeeded: {reasons}", context_updates=updates)
    partial = bool(bad) and policy != "first_success"
    return NodeOutcome("partially_succeeded" if partial else "succeeded", jump_to_node=jump, context_updates=updates)


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
