"""One turn with an agent of the Agent Client Protocol: open or load a session, say the prompt, wait for the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from perdure import __version__
from perdure.agents.backend import AgentContext, AgentRequest, AgentResult, BackendError
from perdure.agents.ending import ending
from perdure.agents.programs.acp.client import Client
from perdure.agents.programs.acp.rpc import AUTH_REQUIRED, ConnectionOver, Peer, RpcError
from perdure.agents.programs.sessions import Plan, afresh, conversation
from perdure.agents.programs.telling import Telling
from perdure.agents.programs.turn import (
    level_of,
    masked,
    missing,
    plan_from_log,
    program_environment,
    remove_scratch,
    report_of,
)
from perdure.base.errors import Refused
from perdure.kernel.outcome import FailureClass
from perdure.sandbox.command import CommandMissing, CommandResult, CommandSpec, tail_text
from perdure.sandbox.interactive import Pipes, run_interactive

PROTOCOL = 1
# How well-known agents are told to speak the protocol, when a command is only their name.
KNOWN = {
    "gemini": ("--acp",),
    "qwen": ("--acp",),
    "opencode": ("acp",),
    "goose": ("acp",),
}
_GOODBYE_S = 1.0
_TOKENS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedReadTokens": "cache_read_tokens",
    "cachedWriteTokens": "cache_write_tokens",
    "thoughtTokens": "reasoning_tokens",
}
_ENDS: dict[str, tuple[str, FailureClass]] = {
    "max_tokens": ("reached its limit of tokens", "budget_exhausted"),
    "max_turn_requests": ("reached its limit of requests in a turn", "budget_exhausted"),
    "refusal": ("refused to go on", "deterministic"),
    "cancelled": ("says that its turn was cancelled", "canceled"),
}


def acp(command: Sequence[str]) -> AcpBackend:
    """The backend. Raises `Refused` without a command."""
    if not command:
        hint = 'Pass --command "PROGRAM ARGS", such as --command "gemini --acp".'
        raise Refused("The backend 'acp' needs a program that speaks the Agent Client Protocol.", hint=hint)
    if len(command) == 1:
        return AcpBackend([*command, *KNOWN.get(os.path.basename(command[0]), ())])
    return AcpBackend(command)


class _Turn(msgspec.Struct):
    """How the conversation went."""

    session_id: str = ""
    stop_reason: str = ""
    usage: dict[str, int] | None = None
    failure: str = ""


class AcpBackend:
    """One agent program, started anew for each turn."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)

    async def run(self, request: AgentRequest, turn: AgentContext) -> AgentResult:
        """The agent's last message. Raises `BackendError`."""
        plan = plan_from_log(request, turn)
        telling = Telling(request, turn, "acp")
        try:
            client = Client(request.cwd, level_of(request), telling)
            went, result = await self._once(request, turn, plan, client, telling)
            return self._answer(request, turn, client, went, result)
        except CommandMissing as error:
            raise missing("The agent", "Name an installed one with --command.", request, error) from error
        finally:
            remove_scratch(turn)

    async def _once(
        self, request: AgentRequest, turn: AgentContext, plan: Plan, client: Client, telling: Telling
    ) -> tuple[_Turn, CommandResult]:
        """Start the program and have the conversation."""
        went = _Turn()

        async def talk(pipes: Pipes) -> None:
            peer = Peer(pipes, client)
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(peer.serve())
                try:
                    await _converse(peer, request, turn, plan, client, telling, went)
                except (RpcError, ConnectionOver) as error:
                    went.failure = went.failure or error.message
                finally:
                    client.finish_message()
                    serving.cancel()

        spec = CommandSpec(self._command, request.cwd, program_environment(request), timeout_ms=request.timeout_ms)
        result = await run_interactive(
            spec,
            talk,
            stdout_path=f"{turn.scratch}.stdout",
            stderr_path=f"{turn.scratch}.stderr",
            new_filter=turn.new_filter,
            on_started=turn.on_started,
        )
        return went, result

    def _answer(
        self, request: AgentRequest, turn: AgentContext, client: Client, went: _Turn, result: CommandResult
    ) -> AgentResult:
        """The answer, once the program has ended. Its exit code says nothing: it is ended when its turn is over."""
        report = report_of(turn, result)
        text = masked(turn, client.text)
        program = self._command[0]
        if result.timed_out:
            message = f"{program} ran longer than {(request.timeout_ms or 0) / 1000:g} s."
            raise BackendError(message, failure_class="transient_infra", retryable=True, partial=text, report=report)
        if went.stop_reason == "":
            errors = tail_text(f"{turn.scratch}.stderr").strip()
            how = "" if result.exit_code in (0, None) else f" It {ending(result.exit_code)}."
            said = masked(turn, f"{went.failure}{how} {errors}".strip())[-1_000:]
            raise BackendError(f"{program} gave no answer: {said}", failure_class=None, partial=text, report=report)
        if went.stop_reason != "end_turn":
            why, failure_class = _ENDS.get(went.stop_reason, (f"stopped: {went.stop_reason}", "deterministic"))
            raise BackendError(f"{program} {why}.", failure_class=failure_class, partial=text, report=report)
        return AgentResult(
            text=text,
            usage=went.usage,
            files_touched=[*client.files],
            report=report,
            conversation=conversation(went.session_id),
        )


async def _converse(
    peer: Peer,
    request: AgentRequest,
    turn: AgentContext,
    plan: Plan,
    client: Client,
    telling: Telling,
    went: _Turn,
) -> None:
    """Say hello, find the session, say the prompt. Raises `RpcError`, `ConnectionOver`."""
    writes = level_of(request) != "read-only"
    hello = await peer.call(
        "initialize",
        {
            "protocolVersion": PROTOCOL,
            "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": writes}, "terminal": False},
            "clientInfo": {"name": "perdure", "title": "Perdure", "version": __version__},
        },
    )
    if hello.get("protocolVersion") != PROTOCOL:
        went.failure = (
            f"It speaks version {hello.get('protocolVersion')} of the protocol, and only {PROTOCOL} is known here."
        )
        return
    place = {"cwd": request.cwd, "mcpServers": []}
    if plan.session_id:
        failure = await _load(peer, plan.session_id, place, hello, client)
        if failure:
            telling.lost(plan.session_id, failure)
            plan = afresh(request, plan)
    went.session_id = plan.session_id or await _new_session(peer, place, hello)
    telling.opened(went.session_id, plan.way)
    await turn.op.flush()
    if request.model:
        telling.said(f"The agent chooses its model itself; {request.model} was asked for.", "warning")
    await _prompt(peer, plan, went)


async def _new_session(peer: Peer, place: dict[str, Any], hello: dict[str, Any]) -> str:
    try:
        opened = await peer.call("session/new", place)
    except RpcError as error:
        if error.number != AUTH_REQUIRED:
            raise
        methods = [each.get("name") for each in hello.get("authMethods") or [] if isinstance(each, dict)]
        offered = ", ".join(str(each) for each in methods) or "its own command"
        raise RpcError(
            error.number, f"{error.message} Log in to the agent first, outside of Perdure, by: {offered}."
        ) from error
    session_id = opened.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise RpcError(0, "The agent opened a session and named none.")
    return session_id


async def _load(peer: Peer, session_id: str, place: dict[str, Any], hello: dict[str, Any], client: Client) -> str:
    """Why the agent cannot go on in the session; empty when it can. It repeats what was said there, which is no news."""
    abilities = hello.get("agentCapabilities")
    if not isinstance(abilities, dict) or abilities.get("loadSession") is not True:
        return "The agent cannot go on in an earlier session."
    client.is_replaying = True
    try:
        await peer.call("session/load", place | {"sessionId": session_id})
    except RpcError as error:
        return error.message or "The agent does not know the session."
    finally:
        client.is_replaying = False
    return ""


async def _prompt(peer: Peer, plan: Plan, went: _Turn) -> None:
    """Say the prompt and wait for the end of the turn. A cancelled turn is cancelled at the agent too, which gets a moment for it."""
    text = plan.prompt.encode("utf-8", "replace").decode()
    asked = {"sessionId": went.session_id, "prompt": [{"type": "text", "text": text}]}
    waiting = asyncio.ensure_future(peer.call("session/prompt", asked))
    try:
        answer = await asyncio.shield(waiting)
    except asyncio.CancelledError:
        peer.notify("session/cancel", {"sessionId": went.session_id})
        await asyncio.wait([waiting], timeout=_GOODBYE_S)
        raise
    finally:
        if not waiting.done():
            waiting.cancel()
        with suppress(asyncio.CancelledError, RpcError, ConnectionOver):
            await waiting
    went.stop_reason = str(answer.get("stopReason") or "")
    usage = answer.get("usage")
    if isinstance(usage, dict):
        went.usage = {name: usage[key] for key, name in _TOKENS.items() if type(usage.get(key)) is int} or None
