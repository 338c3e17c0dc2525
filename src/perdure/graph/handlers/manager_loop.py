"""stack.manager_loop: runs a child workflow as a run of its own, and looks after it.

It ends with the child, or when its `manager.stop_condition` holds. What the child changed in its context comes back, without
`internal.*`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.names import file_name
from perdure.graph.outcome import NodeOutcome, failed
from perdure.graph.runtime import Visit

if TYPE_CHECKING:
    from perdure.graph.definition import GraphDefinition

_MAX_DEPTH = 5


async def run(visit: Visit) -> NodeOutcome:
    """The child's outcome as the node's."""
    child = child_definition(visit)
    if isinstance(child, NodeOutcome):
        return child
    number = "" if visit.number == 1 else f"-visit_{visit.number}"
    run_dir = os.path.join(visit.runtime.run_dir, "nodes", f"{file_name(visit.node.id)}{number}", "child")
    visit.op.emit("subgraph.started", {"node_id": visit.node.id, "name": child.name})
    outcome = await visit.op.child("child", child, None, run_dir=run_dir)
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
