"""A model as a backend: one prompt answered by the durable loop, with tools, within limits."""

from __future__ import annotations

import os
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.backend import AgentContext, AgentRequest, AgentResult, BackendError
from perdure.agents.loop import answers
from perdure.agents.loop.history import recorded_conversation, unanswered
from perdure.agents.loop.loop import DEFAULT_TURNS, Answer, Loop, Task, ToolHooks
from perdure.agents.loop.own_tools import offered
from perdure.agents.loop.prompt import system_prompt
from perdure.agents.loop.saving import Saving, Unsaved, session_id_of
from perdure.agents.loop.spending import Spending
from perdure.agents.loop.turn import Asking, current
from perdure.agents.project_docs import ProjectDocs, read_project_docs
from perdure.agents.tools.authorizing import Permissions
from perdure.agents.tools.mcp import McpServers
from perdure.agents.tools.operation import Open, open_context
from perdure.agents.tools.permissions import agent_id
from perdure.agents.tools.settings import ToolSettings, tool_settings, toolbox
from perdure.agents.tools.skills import Skill, find_skills, skills_text
from perdure.base.errors import Refused
from perdure.disk.home import StateHome
from perdure.llm.prices import Price, find_price
from perdure.llm.protocol import Message
from perdure.llm.registry import Choice, find_model, parse_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.agents.backend import AgentSettings
    from perdure.base.jsonvalue import JSON
    from perdure.kernel.context import OperationContext
    from perdure.llm.protocol import Model, Tool

LOCAL_MODEL = "local"


class LoopSettings(msgspec.Struct, frozen=True):
    """What `[agents]` says of the loop itself. `context_window` is in tokens."""

    max_turns: int = DEFAULT_TURNS
    context_window: int | None = None
    sessions: bool = True


class ModelBackend:
    """Answers prompts by a model and tools, as steps."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def run(self, request: AgentRequest, turn: AgentContext) -> AgentResult:
        """The answer. Raises `BackendError`."""
        if request.schema is not None:
            answers.check_schema(request.schema)
        op = turn.op
        loop_settings, tools = split_settings(turn.settings)
        if request.permission:
            tools = msgspec.structs.replace(tools, permissions=request.permission)
        async with AsyncExitStack() as stack:
            opened = await self._open(stack, op, request, turn, tools)
            definitions = offered(opened.toolbox) if opened is not None else ()
            saving = self._saving(op, request, turn, definitions, enabled=loop_settings.sessions)
            stack.callback(saving.close)
            asking = self._asking(op, request, turn, saving, definitions)
            stack.push_async_callback(asking.close)
            earlier = self._earlier(op, request, turn)
            asking.conversation.add(*earlier)
            saving.messages(0, earlier)
            spending = Spending(await self._prices(op, request, turn.settings), turn.check_budget, turn.on_usage)
            task = Task(
                first=self._first(request, tools, has_tools=opened is not None, is_new=not earlier),
                schema=request.schema,
                max_turns=request.max_turns or loop_settings.max_turns,
                window=loop_settings.context_window,
            )
            hooks = ToolHooks(turn.before_tool, turn.after_tool)
            token = current.set(asking)
            try:
                answer = await Loop(op, asking, task, opened, saving, spending, hooks).run()
            except BackendError as error:
                saving.end(error=error.message, code=error.error_code)
                error.usage = spending.usage
                raise
            finally:
                current.reset(token)
            saving.end(result=answer.text)
            turn.conversations[op.path] = tuple(asking.conversation.messages)
        return self._result(op, request, answer, spending, asking)

    def _result(
        self, op: OperationContext, request: AgentRequest, answer: Answer, spending: Spending, asking: Asking
    ) -> AgentResult:
        conversation: JSON = {
            "session_id": session_id_of(op),
            "path": op.path,
            "turns": list(answer.turns),
            "earlier": request.conversation,
        }
        return AgentResult(
            text=answer.text,
            usage=spending.usage,
            files_touched=answer.files,
            model=asking.choice.model,
            conversation=conversation,
        )

    async def _open(
        self,
        stack: AsyncExitStack,
        op: OperationContext,
        request: AgentRequest,
        turn: AgentContext,
        settings: ToolSettings,
    ) -> Open | None:
        """The tools of the agent; None for a node that only answers."""
        if request.is_prompt_only:
            return None
        root = request.root or request.cwd
        scratch = f"{turn.scratch}.tools"
        hidden = [op.state_root] if op.state_root else []
        context = settings.context(root, request.cwd, request.env, scratch, hidden=hidden, new_filter=turn.new_filter)
        servers = await stack.enter_async_context(McpServers(op, settings.mcp_servers, scratch, request.cwd))
        box = toolbox(settings, self._skills(request), await servers.tools())
        folder = StateHome(op.state_root).workspace(request.workspace or root) if op.state_root else ""
        permissions = Permissions(
            settings.policy(is_attended=op.is_attended),
            agent_id(request.node_id, request.prompt, self._name, request.model),
            session_id_of(op),
            folder,
        )
        return stack.enter_context(open_context(op, context, box, permissions))

    async def _prices(self, op: OperationContext, request: AgentRequest, settings: AgentSettings) -> dict[str, Price]:
        """The person's own prices. The run pauses where a cost must be known and would not be."""
        prices = msgspec.convert(dict(settings.prices), dict[str, Price])
        if settings.needs_price:
            unknown = unpriced(choices(self._name, request.model, settings.fallbacks), prices)
            if unknown is not None:
                await op.pause(
                    f"There is a budget in dollars, and nobody knows the price of {unknown}. "
                    "`perdure resume` with --allow-unknown-cost goes on."
                )
        return prices

    def _skills(self, request: AgentRequest) -> list[Skill]:
        return find_skills(request.root or request.cwd, request.env.get("HOME", ""))

    def _first(
        self, request: AgentRequest, settings: ToolSettings, *, has_tools: bool, is_new: bool
    ) -> tuple[Message, ...]:
        """The messages that begin the work: how an agent is to work, then its task."""
        prompt = request.prompt
        if request.schema is not None:
            prompt = f"{prompt}\n\n{answers.instructions(request.schema)}"
        task = Message("user", text=prompt)
        if not is_new:
            return (task,)
        docs = read_project_docs(request.root or request.cwd, request.cwd) if has_tools else ProjectDocs("")
        skills = skills_text(self._skills(request)) if has_tools else ""
        system = system_prompt(
            cwd=request.cwd, permission=settings.permissions, docs=docs, skills=skills, has_tools=has_tools
        )
        return (Message("system", text=system), task)

    def _earlier(self, op: OperationContext, request: AgentRequest, turn: AgentContext) -> tuple[Message, ...]:
        """The conversation that this request goes on in: as it is in this process, else out of the log."""
        given = request.conversation
        if not isinstance(given, dict) or "path" not in given:
            return ()
        found = turn.conversations.get(str(given["path"]))
        if found is None:
            found = recorded_conversation(op, given)
        if found is None:
            message = f"The conversation of {given['path']} is not in the log, so a new one begins."
            op.emit("run.notice", {"level": "warn", "code": "conversation_lost", "message": message})
            return ()
        return unanswered(tuple(found))

    def _saving(
        self,
        op: OperationContext,
        request: AgentRequest,
        turn: AgentContext,
        tools: tuple[Tool, ...],
        *,
        enabled: bool,
    ) -> Unsaved:
        if not (enabled and op.keeps_conversations and op.state_root):
            return Unsaved()
        op.emit("agent.session.opened", {"session_id": session_id_of(op), "way": "new", "backend": self._name})
        return Saving(op, request, self._name, tools)

    def _cache_key(self, op: OperationContext) -> str:
        """By what the provider finds what it has seen of this conversation."""
        return session_id_of(op)

    def _asking(
        self, op: OperationContext, request: AgentRequest, turn: AgentContext, saving: Unsaved, tools: tuple[Tool, ...]
    ) -> Asking:
        home = StateHome(op.state_root) if op.state_root else None

        def find(name: str) -> Model:
            base_url = turn.settings.base_url if name == self._name else ""
            return find_model(name, base_url=base_url, environ=os.environ, home=home)

        settings = {
            "reasoning_effort": request.reasoning_effort,
            "max_output_tokens": request.max_tokens,
            "cache_key": self._cache_key(op),
            "schema": request.schema,
        }
        deadline = None if request.timeout_ms is None else time.monotonic() + request.timeout_ms / 1000
        asking = Asking(
            choices(self._name, request.model, turn.settings.fallbacks),
            find,
            settings=settings,
            deadline=deadline,
            deliver=saving.deliver,
        )
        asking.tools = tools
        return asking


def split_settings(settings: AgentSettings) -> tuple[LoopSettings, ToolSettings]:
    """What the settings say of the loop, and of tools. Raises `BadToolSettings`."""
    own = {name: settings.agents[name] for name in LoopSettings.__struct_fields__ if name in settings.agents}
    rest = {name: value for name, value in settings.agents.items() if name not in own}
    try:
        return msgspec.convert(own, LoopSettings), tool_settings(rest, settings.mcp_servers)
    except msgspec.ValidationError as error:
        raise Refused(f"The settings [agents] cannot be used: {error}.") from error


def choices(backend: str, model: str, fallbacks: Mapping[str, Any]) -> list[Choice]:
    """Who may answer, the first one first. Raises `Refused` when no model is named."""
    named = model or (LOCAL_MODEL if backend == "local" else "")
    if not named:
        raise Refused(f"The backend {backend} needs a model.", hint="Pass --model NAME, or set `model` on the node.")
    found = [Choice(backend, named)]
    for word in fallbacks.get(backend) or fallbacks.get("*") or ():
        choice = parse_choice(str(word))
        if not choice.model and choice.backend not in (backend, "local"):
            raise Refused(f"The fallback {word!r} names no model.", hint="Write BACKEND:MODEL.")
        found.append(Choice(choice.backend or backend, choice.model or named))
    return found


def unpriced(found: list[Choice], prices: Mapping[str, Price]) -> str | None:
    """The first of those who may answer whose price nobody knows."""
    for each in found:
        if find_price(each.backend, each.model, prices) is None:
            return f"{each.backend}/{each.model}"
    return None
