"""Turn, tools, turn, until there is an answer. All of it is decided from recorded results, so that it goes on after a kill just
where it was: finished turns and calls answer from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.agents.backend import BackendError
from perdure.agents.loop import answers, compaction, own_tools
from perdure.agents.loop.history import TurnRecord, attempts_of, steered, tool_message, turn_of, written_path
from perdure.agents.repetition import find_repetition, turn_digest
from perdure.agents.tools.operation import call_tool
from perdure.kernel.operation import StepFailed
from perdure.llm.protocol import Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from perdure.agents.backend import AfterTool, BeforeTool
    from perdure.agents.loop.saving import Unsaved
    from perdure.agents.loop.spending import Spending
    from perdure.agents.loop.turn import Asking
    from perdure.agents.tools.operation import Open
    from perdure.kernel.context import OperationContext, RunContext
    from perdure.llm.protocol import Tool

DEFAULT_TURNS = 200
_TRANSIENT_CODES = ("RATE_LIMIT", "TRANSIENT", "TIMEOUT")


class Task(NamedTuple):
    """What the loop works on. `first` are the messages that begin it; `schema` is the form of the answer, if one is wanted."""

    first: tuple[Message, ...]
    schema: dict[str, Any] | None
    max_turns: int
    window: int | None


class Answer(NamedTuple):
    """What came of it: the last text, the numbers of the turns that it was made of, and the files that tools wrote."""

    text: str
    turns: list[int]
    files: list[str]


class ToolHooks(NamedTuple):
    """Whom to ask before a tool is called, and to tell after it; see `AgentContext`."""

    before: BeforeTool | None
    after: AfterTool | None


def as_object(arguments: str) -> dict[str, Any]:
    """A call's arguments for those who look at them; what is no JSON object stands under `text`."""
    try:
        found = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        found = None
    return found if isinstance(found, dict) else {"text": arguments}


class Loop:
    """One agent at work."""

    def __init__(
        self,
        op: OperationContext,
        asking: Asking,
        task: Task,
        opened: Open | None,
        saving: Unsaved,
        spending: Spending,
        hooks: ToolHooks | None = None,
    ) -> None:
        self._op = op
        self._asking = asking
        self._task = task
        self._opened = opened
        self._saving = saving
        self._spending = spending
        self._hooks = hooks or ToolHooks(None, None)
        self._tools: tuple[Tool, ...] = asking.tools
        self._number = 0
        self._turns: list[int] = []
        self._digests: list[str] = []
        self._files: dict[str, None] = {}
        self._repaired = False

    async def run(self) -> Answer:
        """The answer. Raises `BackendError`."""
        asked = self._task.first
        while True:
            scope, record = await self._turn(asked)
            more = await self._after(scope, record)
            if more is not None:
                asked = more
                continue
            faults = answers.faults_of(record.message.text, self._task.schema)
            if not faults:
                text = record.message.text
                said = answers.json_text(text) if self._task.schema else text
                return Answer(said, self._turns, list(self._files))
            if self._repaired:
                raise BackendError(f"The answer cannot be used: {faults[0]}", error_code="INVALID_RESULT")
            self._repaired = True
            asked = (Message("user", text=answers.repair_request(faults, self._task.schema)),)

    async def _turn(self, asked: tuple[Message, ...]) -> tuple[RunContext, TurnRecord]:
        """One turn, with a shorter conversation when the model cannot take all of it."""
        if self._number >= self._task.max_turns:
            raise BackendError(
                f"The agent made {self._number} turns, which is its limit, and has no answer.", error_code="AGENT_ERROR"
            )
        self._number += 1
        scope = self._op.scope(f"turn-{self._number}")
        if not scope.has_end("model"):  # one that was cut off is asked again, and others may have spent meanwhile
            await self._spending.check("model")
        try:
            record = await self._ask(scope, asked, tools=() if self._repaired else self._tools)
        except StepFailed as error:
            asked = msgspec.convert((error.result or {}).get("asked", []), tuple[Message, ...]) or asked  # type: ignore[union-attr]
            if error.failure.code != "CONTEXT_LENGTH" or not await self._compact(scope):
                raise self._failed(error) from error
            return await self._turn(asked)
        return scope, record

    async def _ask(
        self, scope: RunContext, asked: tuple[Message, ...], *, tools: tuple[Tool, ...], name: str = "model"
    ) -> TurnRecord:
        """A turn as a step; then it is part of the conversation."""
        asking = self._asking
        asking.asked, asking.tools = asked, tools
        live = asking.live
        try:
            record = turn_of(await scope.step(name, "agent.turn", {"turn": self._number, "purpose": name}))
        except StepFailed as error:
            attempts = attempts_of(error.result)
            self._spending.add_attempts(attempts, is_live=asking.live > live)
            self._saving.attempts(self._number, attempts)
            raise
        self._follow(record, is_live=asking.live > live)
        if name == "model":
            self._turns.append(self._number)
            asking.conversation.add(*record.asked, record.message)
        self._spending.add_turn(record.attempts, is_live=asking.live > live)
        self._saving.turn(self._number, record, repair=self._repaired, is_live=asking.live > live)
        return record

    def _follow(self, record: TurnRecord, *, is_live: bool) -> None:
        """Who answered last answers on, and the time that turns took is over, at a replay too."""
        if not is_live and self._asking.deadline is not None:
            self._asking.deadline -= record.ms / 1000
        for place, choice in enumerate(self._asking.choices):
            if choice.backend == record.backend and place > self._asking.place:
                self._asking.place = place

    async def _after(self, scope: RunContext, record: TurnRecord) -> tuple[Message, ...] | None:
        """What is said next, besides the results of tools; None when the turn was the last."""
        calls = record.message.tool_calls
        self._digests.append(turn_digest(calls))
        if not calls:
            return await self._heard(scope)
        results = [await self._call(scope, number, call) for number, call in enumerate(calls, start=1)]
        message = tool_message(results)
        self._asking.conversation.add(message)
        self._saving.messages(self._number, (message,))
        more: tuple[Message, ...] = ()
        circle = find_repetition(self._digests)
        if circle is not None:
            if circle.action == "stop":
                raise BackendError(circle.text, error_code="AGENT_ERROR")
            more = (Message("user", text=circle.text),)
        if compaction.is_due(record.usage, record.backend, self._task.window):
            await self._compact(scope)
        return more

    async def _heard(self, scope: RunContext) -> tuple[Message, ...] | None:
        """What people said while the last turn was under way: an agent that is steered is not done. None when it is."""
        if not self._op.has_steering and not scope.has_record("heard"):
            return None
        texts = await scope.step("heard", "agent.heard")
        assert isinstance(texts, list)
        return tuple(Message("user", text=steered(str(text))) for text in texts)

    async def _call(self, scope: RunContext, number: int, call: ToolCall) -> ToolResult:
        """The result of a call, with what hooks say before and after it."""
        name, hooks, arguments = f"tool-{number}", self._hooks, as_object(call.arguments)
        refused = await hooks.before(scope, f"{name}-before", call.name, arguments) if hooks.before else None
        if refused is not None:
            return ToolResult(call.id, f"This call is not allowed: {refused}", is_error=True)
        result = await self._made(scope, name, call)
        if hooks.after is None:
            return result
        blocked = await hooks.after(scope, f"{name}-after", call.name, arguments, result.is_error, result.text)
        if blocked is None:
            return result
        return ToolResult(call.id, f"{result.text}\n[This does not count: {blocked}]", is_error=True)

    async def _made(self, scope: RunContext, name: str, call: ToolCall) -> ToolResult:
        """The result of a call, recorded."""
        assert self._opened is not None
        is_new = not scope.has_record(name)
        if is_new:
            await self._spending.check("tool")
        self._spending.add_tool_call(is_live=is_new)
        if call.name in own_tools.NAMES:
            return await own_tools.call(scope, name, call, self._asking, self._opened, self._task, self._spending)
        result = await call_tool(scope, name, self._opened, call)
        if call.name in ("write", "edit") and not result.is_error:
            path = written_path(call.arguments)
            if path:
                self._files[path] = None
        return result

    async def _compact(self, scope: RunContext) -> bool:
        """Let a summary stand for the beginning of the conversation; when there is none, cut old results. False when neither
        made it shorter."""
        conversation = self._asking.conversation
        try:
            record = await self._ask(scope, (Message("user", text=compaction.REQUEST),), tools=(), name="summary")
        except StepFailed as error:
            about = {"turn": self._number, "error": error.failure.message}
            self._op.emit("agent.compaction.failed", about)
            return conversation.shorten()
        if not record.message.text.strip():
            return conversation.shorten()
        before = len(conversation.seen)
        conversation.fold(compaction.summary_message(record.message.text), compaction.kept(conversation.seen))
        self._op.emit("agent.compacted", {"turn": self._number, "messages": before, "now": len(conversation.seen)})
        return len(conversation.seen) < before

    def _failed(self, error: StepFailed) -> BackendError:
        code = error.failure.code or "PROVIDER_ERROR"
        is_transient = code in _TRANSIENT_CODES
        return BackendError(
            error.failure.message,
            failure_class="transient_infra" if is_transient else "deterministic",
            retryable=is_transient,
            error_code=code,
        )
