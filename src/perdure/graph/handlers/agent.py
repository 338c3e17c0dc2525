"""agent and prompt: a backend answers; what it says about the way on is read from its answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.backend import BackendError, TurnContext, TurnRequest, find_backend
from perdure.graph.directive import apply_directive, find_directive
from perdure.graph.outcome import NodeOutcome, failed, try_again
from perdure.graph.preamble import fidelity_of, preamble, thread_of
from perdure.graph.runtime import Visit
from perdure.graph.scripts import place_environment
from perdure.graph.variables import render

if TYPE_CHECKING:
    from perdure.sandbox.groups import Group

LAST_RESPONSE = 200


async def run(visit: Visit) -> NodeOutcome:
    """The answer goes to `response.<node>` and, cut, to `last_response`. An exit or an error of the backend is a failure,
    whatever it left behind."""
    node, state = visit.node, visit.place.state
    options = visit.runtime.options
    fidelity = fidelity_of(visit.runtime.graph, node, visit.edge)
    thread_id = thread_of(visit.runtime.graph, node, visit.edge, state.last_node, visit.runtime.dialect)
    before = preamble(state, fidelity)
    prompt = _prompt(visit, before)
    name = options.backend or node.text("backend") or "command"
    if name in ("api", "cli"):
        name = options.backend or "command"
    backend = find_backend(name, options.command, options.script)
    provider_used = {"mode": name, "provider": node.text("provider") or options.provider, "model": _model(visit)}
    visit.op.emit("step.prompt", {"node_id": node.id, "text": prompt, "provider_used": provider_used}, again=True)
    request = TurnRequest(
        prompt=prompt,
        node_id=node.id,
        run_id=visit.runtime.run_id,
        visit=visit.number,
        attempt=visit.op.attempt,
        model=_model(visit),
        provider=provider_used["provider"],
        reasoning_effort=node.text("reasoning_effort"),
        thread_id=thread_id,
        fidelity=fidelity,
        is_prompt_only=node.handler == "prompt",
        cwd=visit.place.work_dir,
        env=place_environment(visit.runtime, {"PERDURE_NODE_ID": node.id}),
        timeout_ms=node.duration_ms("timeout"),
        max_tokens=node.integer("max_tokens"),
        steering=visit.op.take_steering(),
    )
    try:
        result = await backend.run(request, _turn_context(visit))
    except BackendError as error:
        visit.op.emit("agent.cli.completed", {"node_id": node.id, "failure": str(error)}, again=True)
        more: dict[str, Any] = {"response": error.partial} if error.partial else {}
        make = try_again if error.retryable else failed
        return make(str(error), error.failure_class, **more)
    visit.op.emit("agent.cli.completed", {"node_id": node.id, "failure": None}, again=True)
    outcome = _outcome(visit, result.text, result.directive, result.usage, result.files_touched)
    told = {
        "internal.fidelity": fidelity,
        "internal.thread_id": thread_id,
        f"thread.{thread_id}.current_node": node.id,
        "current.preamble": before[:LAST_RESPONSE],
    }
    return outcome.but(context_updates=outcome.context_updates | told)


def _prompt(visit: Visit, before: str) -> str:
    node, state = visit.node, visit.place.state
    options = visit.runtime.options
    text = node.text("prompt") or node.label
    filled = render(text, goal=state.goal, inputs=options.inputs, variables=options.variables, context=state.context)
    return f"{before}\n{filled}" if before else filled


def _model(visit: Visit) -> str:
    return str(visit.node.text("model") or visit.runtime.options.model or visit.runtime.graph.text("default_model"))


def _turn_context(visit: Visit) -> TurnContext:
    op = visit.op

    async def started(group: Group) -> None:
        about = {"node_id": visit.node.id, "process_group": msgspec.to_builtins(group)}
        op.emit("agent.cli.started", about, again=True)
        await op.flush()

    return TurnContext(
        scratch=visit.spool("agent"),
        new_filter=op.mask.stream if op.mask is not None else None,
        on_started=started,
    )


def _outcome(
    visit: Visit, text: str, directive: dict[str, Any] | None, usage: dict[str, Any] | None, files: list[str]
) -> NodeOutcome:
    node = visit.node
    updates = {f"response.{node.id}": text, "last_response": text[:LAST_RESPONSE], "last_stage": node.id}
    outcome = NodeOutcome("succeeded", context_updates=updates, response=text, usage=usage, files_touched=files)
    found = directive or find_directive(text) or _left_status(visit)
    return apply_directive(outcome, found).but(response=text, usage=usage) if found else outcome


def _left_status(visit: Visit) -> dict[str, Any] | None:
    """A `status.json` that the agent left in its working folder; it is taken and removed, so that no later node reads it."""
    path = os.path.join(visit.place.work_dir, "status.json")
    try:
        with open(path, "rb") as file:
            value = msgspec.json.decode(file.read(1024 * 1024))
    except (OSError, msgspec.DecodeError):
        return None
    if not isinstance(value, dict) or "outcome" not in value:
        return None
    os.unlink(path)
    return value
