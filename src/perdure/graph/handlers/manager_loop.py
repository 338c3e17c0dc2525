"""stack.manager_loop: runs a child workflow as a run of its own, and looks after it.

It ends with the child, or when its `manager.stop_condition` holds. What the child changed in its context comes back, without
`internal.*`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.base.names import file_name
from perdure.graph.conditions import evaluate, parse
from perdure.graph.context import look_up
from perdure.graph.outcome import NodeOutcome, failed
from perdure.graph.runtime import Visit
from perdure.kernel.operation import operation

if TYPE_CHECKING:
    from perdure.graph.definition import GraphDefinition
    from perdure.graph.runtime import Runtime
    from perdure.kernel.context import OperationContext
    from perdure.kernel.outcome import Outcome

_MAX_DEPTH = 5
_MOST_SEEN = 8_000
_STEERING = (
    "You look after a workflow that is at work. Below is what it knows now, as JSON. When it goes well, answer OK and nothing else. "
    "Otherwise answer with what its agent should be told, in a few sentences; they are passed on as they are."
)


async def run(visit: Visit) -> NodeOutcome:
    """The child's outcome as the node's."""
    child = child_definition(visit)
    if isinstance(child, NodeOutcome):
        return child
    run_dir = os.path.join(visit.runtime.run_dir, "nodes", *child_folder(visit.op.step_id))
    visit.op.emit("subgraph.started", {"node_id": visit.node.id, "name": child.name})
    watch = _Watch(visit, run_dir)
    try:
        [outcome, _] = await visit.op.gather([lambda: watch.child(child), watch.look])
    except _Enough as enough:
        visit.op.emit("subgraph.completed", {"node_id": visit.node.id, "status": "cancelled"})
        return enough.outcome
    visit.op.emit("subgraph.completed", {"node_id": visit.node.id, "status": outcome.status})
    output = outcome.output if isinstance(outcome.output, dict) else {}
    updates: dict[str, Any] = {
        "stack.child.status": outcome.status,
        "stack.child.outcome": outcome.status,
        "last_stage": visit.node.id,
        "last_response": str(output.get("last_response") or ""),
    }
    context = output.get("context")
    if isinstance(context, dict):
        updates = {
            key: value for key, value in context.items() if not key.startswith(("internal.", "graph."))
        } | updates
    if outcome.is_good:
        return NodeOutcome("succeeded", context_updates=updates)
    reason = outcome.failure.message if outcome.failure else outcome.status
    return failed(f"The child workflow {child.name} {outcome.status}: {reason}", context_updates=updates)


class _Enough(Exception):
    """The manager does not wait for the child's end."""

    def __init__(self, outcome: NodeOutcome) -> None:
        super().__init__()
        self.outcome = outcome


class _Watch:
    """The child, and the manager's looks at it."""

    def __init__(self, visit: Visit, run_dir: str) -> None:
        self._visit = visit
        self._run_dir = run_dir
        self._has_ended = False
        self._is_unwanted = False

    async def child(self, definition: GraphDefinition) -> Outcome:
        """The child's outcome."""
        call = self._visit.op.child(
            "child", definition, None, run_dir=self._run_dir, is_unwanted=lambda: self._is_unwanted
        )
        outcome: Outcome = await call
        self._has_ended = True
        return outcome

    async def look(self) -> None:
        """Look again and again, when the node says for what or how often; raises `_Enough`."""
        node, op = self._visit.node, self._visit.op
        text = node.text("manager.stop_condition").strip()
        steers = "steer" in node.text("manager.actions")
        if not text and not steers and "manager.max_cycles" not in node.attrs:
            return
        condition = parse(text) if text else None
        for _ in range(node.integer("manager.max_cycles") or 1):
            await op.sleep("cycle", node.duration_ms("manager.poll_interval") or 0)
            if self._has_ended:
                return
            seen = await op.step("look", "graph.look_at_child", None)
            if condition is not None and evaluate(condition, partial(look_up, _as_context(seen))):
                self._is_unwanted = True
                notes = f"content with its child: {text}"
                raise _Enough(NodeOutcome("succeeded", context_updates={"last_stage": node.id}, notes=notes))
            if steers:
                input = {"node": node.id, "place": self._visit.place.path, "run_dir": self._run_dir, "seen": seen}
                await op.step("steer", "graph.steer_child", input)
        self._is_unwanted = True
        raise _Enough(failed(f"Manager {node.id} looked {node.integer('manager.max_cycles')} times without an end."))


@operation("graph.look_at_child", effects=False)
def look_at_child(op: OperationContext, _input: JSON) -> JSON:
    """The child's context as its last checkpoint shows it."""
    path = os.path.join(op.run_dir, "nodes", *child_folder(op.path.rpartition("/")[0]), "checkpoint.json")
    try:
        with open(path, "rb") as file:
            values = msgspec.json.decode(file.read())["context_values"]
    except (OSError, msgspec.DecodeError, KeyError):
        return {}
    return dict(values)


@operation("graph.steer_child")
async def steer_child(op: OperationContext, input: dict[str, Any]) -> JSON:
    """An agent looks at the child, and may say something to it; what was said, null when nothing."""
    from perdure.graph.handlers import agent

    runtime: Runtime = op.local
    node = runtime.graph.nodes[input["node"]]
    seen = msgspec.json.encode(input["seen"]).decode()[:_MOST_SEEN]
    prompt = f"{node.text('prompt') or node.label}\n\n{_STEERING}\n\n{seen}"
    asked = type(node)(id=node.id, attrs=node.attrs | {"prompt": prompt, "type": "prompt"}, classes=node.classes)
    answered = await agent.run(Visit(op, asked, runtime, runtime.places[input["place"]], 1))
    said = str(answered.response or "").strip()
    if not answered.is_good or said.strip(" .!").upper() in ("", "OK"):
        return None
    return said if op.steer_child(input["run_dir"], said) else None


def _as_context(seen: JSON) -> dict[str, Any]:
    return seen if isinstance(seen, dict) else {}


def child_folder(step_id: str) -> tuple[str, str]:
    """Where a manager's child has its files, by the id of the manager's step. Managers in branches of one node have each their own."""
    outer, _, inner = step_id.partition("/")
    name, _, visit = outer.partition("@")
    folder = f"{file_name(name)}-visit_{visit}" if visit else file_name(name)
    return folder, f"child-{file_name(inner)}" if inner else "child"


def child_definition(visit: Visit) -> GraphDefinition | NodeOutcome:
    """The child's graph with the parent's options and a copy of its context; a failure when it cannot be read."""
    from perdure.graph.definition import GraphDefinition
    from perdure.graph.dialect import dialect_of
    from perdure.graph.files import recorded_reader
    from perdure.graph.load import load_graph

    node, runtime = visit.node, visit.runtime
    options = runtime.options
    depth = int(options.inputs.get("internal.depth", 0)) + 1
    if depth > _MAX_DEPTH:
        return failed(f"Child workflows are nested deeper than {_MAX_DEPTH}.", "structural")
    reference = (
        node.text("stack.child_workflow")
        or node.text("stack.child_dotfile")
        or runtime.graph.text("stack.child_dotfile")
    )
    source = node.text("stack.child_dot_source")
    path = runtime.definition.path
    read = recorded_reader(runtime.definition.files)
    if not source:
        found = read(reference, os.path.dirname(runtime.definition.path) or ".")
        if found is None:
            return failed(f"Node {node.id} names the child workflow {reference!r}, which is not there.", "structural")
        source, path = found
    loaded = load_graph(source, path, read, variables=options.variables, dialect=dialect_of(path).name)
    if loaded.graph is None or loaded.errors:
        return failed(
            f"The child workflow has errors: {'; '.join(each.text() for each in loaded.errors)}", "structural"
        )
    context = {
        key: value for key, value in visit.place.state.context.items() if not key.startswith(("internal.", "graph."))
    }
    given = options.inputs | context | {"internal.depth": depth}
    child_options = msgspec.structs.replace(
        options,
        inputs=given,
        goal=loaded.graph.goal or options.goal,
        git="none",
        repository=None,
        working_directory=visit.place.work_dir,
        setup=[],
        hooks=[],
    )
    return GraphDefinition(loaded.graph, source, path, loaded.dialect, runtime.definition.files, child_options)
