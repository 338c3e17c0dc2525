"""agent and prompt: a backend answers; what it says about the way on is read from its answer."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.backend import (
    AgentContext,
    AgentRequest,
    AgentResult,
    AgentSettings,
    BackendError,
    ProgramReport,
    command_for,
    find_backend,
)
from perdure.base.errors import Refused
from perdure.graph import tool_hooks
from perdure.graph.answering import backend_of, model_of
from perdure.graph.budgets import needs_price, told_by
from perdure.graph.directive import WORDS, apply_directive, find_directive
from perdure.graph.failures import classify
from perdure.graph.outcome import NodeOutcome, failed, try_again
from perdure.graph.preamble import fidelity_of, preamble, thread_of
from perdure.graph.runtime import Visit
from perdure.graph.scripts import place_environment
from perdure.graph.tool_hooks import ToolUse
from perdure.graph.variables import render
from perdure.kernel.capacity.tags import parse_tags
from perdure.llm import MODELS

if TYPE_CHECKING:
    from perdure.base.jsonvalue import JSON
    from perdure.kernel.context import RunContext
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
    name, model = backend_of(visit.runtime.graph, node, options), model_of(visit.runtime.graph, node, options)
    if name not in MODELS:  # which hears what people say at each of its turns
        prompt = "\n\n".join([prompt, *visit.op.take_steering()])
    backend = find_backend(name, command_for(name, options.backend, options.command), options.script)
    provider_used = {"mode": name, "provider": node.text("provider") or options.provider, "model": model}
    visit.op.emit("step.prompt", {"node_id": node.id, "text": prompt, "provider_used": provider_used}, again=True)
    request = AgentRequest(
        prompt=prompt,
        node_id=node.id,
        run_id=visit.runtime.run_id,
        visit=visit.number,
        attempt=visit.op.attempt,
        model=model,
        provider=provider_used["provider"],
        reasoning_effort=node.text("reasoning_effort"),
        thread_id=thread_id,
        fidelity=fidelity,
        is_prompt_only=node.handler == "prompt",
        cwd=visit.place.work_dir,
        env=place_environment(visit.runtime, {"PERDURE_NODE_ID": node.id}),
        timeout_ms=node.duration_ms("timeout"),
        max_tokens=node.integer("max_tokens"),
        permission=node.text("permission"),
        conversation=_conversation(visit, name, thread_id) if fidelity == "full" else None,
        root=visit.place.worktree or visit.place.work_dir,
        schema=schema_of(node.text("output_schema")),
        max_turns=node.integer("max_agent_turns"),
        workspace=visit.runtime.repository or options.working_directory,
    )
    await visit.runtime.spent.check(visit.op, node, {})
    remaining = visit.runtime.remaining.get(node.id, 0)
    async with visit.op.slot(name, tags=parse_tags(node.text("mutex")), remaining=remaining):
        left_before = _status_stamp(visit)
        try:
            result = await backend.run(request, _turn_context(visit))
        except BackendError as error:
            if error.report is not None or name not in MODELS:
                visit.op.emit("agent.cli.completed", _ended(node.id, str(error), error.report), again=True)
                error.usage = _told(visit, name, error.usage)
            return _failed(error)
    if name not in MODELS:
        result = msgspec.structs.replace(result, usage=_told(visit, name, result.usage))
    if result.report is not None:
        visit.op.emit("agent.cli.completed", _ended(node.id, None, result.report), again=True)
    outcome = _outcome(visit, result, left_before)
    if result.conversation is not None:
        outcome = outcome.but(conversation={"backend": _family(name), "at": result.conversation})
    told = {
        "internal.fidelity": fidelity,
        "internal.thread_id": thread_id,
        f"thread.{thread_id}.current_node": node.id,
        "current.preamble": before[:LAST_RESPONSE],
    }
    return outcome.but(context_updates=outcome.context_updates | told)


def _family(backend: str) -> str:
    """Which backends can go on in one another's conversations: all models can, since the log has what was said."""
    return "model" if backend in MODELS else backend


def _conversation(visit: Visit, backend: str, thread_id: str) -> JSON:
    """Where the thread's conversation stands; None when there is none that this backend can go on in."""
    found = visit.place.state.conversations.get(thread_id)
    if isinstance(found, dict) and found.get("backend") == _family(backend):
        at: JSON = found["at"]
        return at
    return None


def schema_of(text: str) -> dict[str, Any] | None:
    """The JSON Schema that a node's answers must fulfil. Raises `Refused`."""
    if not text:
        return None
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Refused(f"output_schema is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Refused("output_schema is no JSON Schema: it is no object.")
    return value


def _ended(node_id: str, failure: str | None, report: ProgramReport | None) -> dict[str, Any]:
    """What `agent.cli.completed` tells of the program, if there was one."""
    told: dict[str, Any] = {"node_id": node_id, "failure": failure}
    if report is not None:
        told |= msgspec.structs.asdict(report)
        if report.stdout is None:
            del told["stdout"]
    return told


def _failed(error: BackendError) -> NodeOutcome:
    """A failure of the backend: one that looks transient may be tried again, as the node's policy says."""
    failure_class = error.failure_class or classify(error.message)
    make = try_again if error.retryable or failure_class == "transient_infra" else failed
    more: dict[str, Any] = {"response": error.partial} if error.partial else {}
    if error.usage:
        more["usage"] = error.usage
    return make(error.message, failure_class, **more)


def _prompt(visit: Visit, before: str) -> str:
    node, state = visit.node, visit.place.state
    options = visit.runtime.options
    text = node.text("prompt") or node.label
    filled = render(text, goal=state.goal, inputs=options.inputs, variables=options.variables, context=state.context)
    return f"{before}\n{filled}" if before else filled


def _turn_context(visit: Visit) -> AgentContext:
    op = visit.op

    async def started(group: Group) -> None:
        about = {"node_id": visit.node.id, "process_group": msgspec.to_builtins(group)}
        op.emit("agent.cli.started", about, again=True)
        await op.flush()

    hooked = visit.runtime.hooks.wants_tools(visit.node)
    return AgentContext(
        op=op,
        scratch=visit.spool("agent"),
        new_filter=op.mask.stream if op.mask is not None else None,
        on_started=started,
        keep_text=op.keep_text,
        settings=_settings(visit),
        conversations=visit.runtime.conversations,
        before_tool=partial(_before_tool, visit) if hooked else None,
        after_tool=partial(_after_tool, visit) if hooked else None,
        check_budget=lambda used, call: visit.runtime.spent.check(op, visit.node, used, call),
        on_usage=visit.runtime.spent.add,
    )


def _told(visit: Visit, backend: str, usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a program used, counted for the run as soon as it has ended, whatever its end was."""
    told = told_by(backend, usage, must_tell=needs_price(visit.node, visit.runtime.options))
    visit.runtime.spent.add(told or {})
    return told


async def _before_tool(visit: Visit, scope: RunContext, place: str, name: str, arguments: dict[str, Any]) -> str | None:
    refused = await tool_hooks.before(scope.scope(place), visit.runtime, ToolUse(visit.node, name, arguments))
    return refused.reason if refused is not None else None


async def _after_tool(
    visit: Visit, scope: RunContext, place: str, name: str, arguments: dict[str, Any], is_error: bool, text: str
) -> str | None:
    use = ToolUse(visit.node, name, arguments)
    failure = text if is_error else None
    return await tool_hooks.after(scope.scope(place), visit.runtime, use, failure=failure, output=text)


def _settings(visit: Visit) -> AgentSettings:
    options = visit.runtime.options
    return AgentSettings(
        options.base_url,
        options.fallbacks,
        options.agents,
        options.mcp_servers,
        options.prices,
        needs_price=needs_price(visit.node, options),
    )


def _outcome(visit: Visit, result: AgentResult, left_before: object) -> NodeOutcome:
    node, text = visit.node, result.text
    updates = {f"response.{node.id}": text, "last_response": text[:LAST_RESPONSE], "last_stage": node.id}
    outcome = NodeOutcome(
        "succeeded",
        context_updates=updates,
        response=text,
        usage=result.usage,
        files_touched=result.files_touched,
    )
    given = result.directive if result.directive and any(word in result.directive for word in WORDS) else None
    found = given or find_directive(text) or _left_status(visit, left_before)
    return apply_directive(outcome, found).but(response=text, usage=result.usage) if found else outcome


def _status_path(visit: Visit) -> str:
    return os.path.join(visit.place.work_dir, "status.json")


def _status_stamp(visit: Visit) -> tuple[int, int, int] | None:
    """What tells a `status.json` that was there before from one that the agent wrote; None when there is none."""
    try:
        found = os.lstat(_status_path(visit))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _left_status(visit: Visit, before: object) -> dict[str, Any] | None:
    """A `status.json` that the agent left in its working folder, and nobody before it: a file of the project says nothing about
    this turn. A new one is taken and removed, so that it is no part of the work."""
    path = _status_path(visit)
    if _status_stamp(visit) in (None, before) or not stat.S_ISREG(os.lstat(path).st_mode):
        return None
    try:
        with open(path, "rb") as file:
            value = msgspec.json.decode(file.read(1024 * 1024))
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(value, dict) or "outcome" not in value:
        return None
    if before is None:
        os.unlink(path)
    return value
