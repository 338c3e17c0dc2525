"""`agent.turn`: one turn of a model as a recorded step: its attempts, the waits between them, and who answers when a backend cannot.

The step's input is small (`{turn, purpose}`); what is asked stands in its result, together with the answer. A turn whose owner died in
the middle of it is asked again: nothing of it was recorded.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.loop.history import Attempt, Conversation, TurnRecord, steered
from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON, decode
from perdure.kernel.operation import OperationFailed, operation
from perdure.kernel.outcome import Failure
from perdure.llm import retry
from perdure.llm.protocol import ErrorCode, Message, ModelError, ModelRequest, ModelTurn
from perdure.llm.registry import Choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.kernel.context import OperationContext
    from perdure.llm.protocol import DeltaKind, Model, Tool

# What another backend may mend. What is wrong with the request itself is wrong everywhere.
FAILOVER: frozenset[ErrorCode] = frozenset({"QUOTA", "RATE_LIMIT", "TRANSIENT", "TIMEOUT", "AUTHENTICATION"})
_TRANSIENT: frozenset[ErrorCode] = frozenset({"RATE_LIMIT", "TRANSIENT", "TIMEOUT"})


class NotHere(ModelError):
    """A backend cannot be asked from this machine as it is: its key, its library or its address is missing."""


class Asking:
    """What the turns of one agent share in this process. `choices` are the backends that may answer, in their order; `place` is the
    one that answers now. `live` counts the turns that were asked in this process. `deadline` is on the monotonic clock, in seconds."""

    def __init__(
        self,
        choices: list[Choice],
        find: Callable[[str], Model],
        *,
        settings: dict[str, Any],
        deadline: float | None,
        deliver: Callable[[int, int, DeltaKind, str], None],
    ) -> None:
        self.choices = choices
        self.place = 0
        self.settings = settings
        self.deadline = deadline
        self.deliver = deliver
        self.conversation = Conversation()
        self.asked: tuple[Message, ...] = ()
        self.tools: tuple[Tool, ...] = ()
        self.live = 0
        self._find = find
        self._models: dict[str, Model] = {}

    @property
    def choice(self) -> Choice:
        """Who answers now."""
        return self.choices[self.place]

    def model(self) -> Model:
        """Its adapter. Raises `ModelError` when it cannot be used here."""
        name = self.choice.backend
        if name not in self._models:
            try:
                self._models[name] = self._find(name)
            except Refused as error:
                raise NotHere("AUTHENTICATION", error.message, hint=error.hint or "") from error
        return self._models[name]

    def inner(self, tools: tuple[Tool, ...]) -> Asking:
        """For an agent that this one starts: the same models and deadline, a conversation of its own."""
        found = Asking(
            self.choices, self._find, settings=self.settings, deadline=self.deadline, deliver=lambda *_delta: None
        )
        found.place, found.tools, found._models = self.place, tools, self._models
        return found

    def left_ms(self) -> float | None:
        """How long the agent may still work, None for ever."""
        return None if self.deadline is None else (self.deadline - time.monotonic()) * 1000

    async def close(self) -> None:
        """Give back connections."""
        for each in self._models.values():
            await each.close()


current: ContextVar[Asking] = ContextVar("asking")


@operation("agent.turn")
async def ask_model(op: OperationContext, input: dict[str, Any]) -> JSON:
    """The model's next message, recorded with what was asked. Raises `OperationFailed` with the provider's error code."""
    asking = current.get()
    asking.live += 1
    begun = time.monotonic()
    said = tuple(Message("user", text=steered(text)) for text in op.take_steering())
    asked = asking.asked + said
    attempts: list[Attempt] = []
    number = int(input["turn"])
    try:
        turn = await _answered(op, asking, number, (*asking.conversation.seen, *asked), attempts)
    except NotHere as error:
        # Nothing was asked, and a person can mend it: no reason for work to be given up.
        await op.pause(f"{asking.choice.backend} cannot be asked here: {error}")
    except ModelError as error:
        failure = Failure(
            f"{asking.choice.backend}: {error}",
            "transient_infra" if error.error_code in _TRANSIENT else "deterministic",
            code=error.error_code,
        )
        recorded: JSON = {"attempts": _plain(attempts), "asked": _plain(asked)}
        raise OperationFailed(failure, result=recorded) from error
    record = TurnRecord(
        asked=asked,
        message=turn.message,
        stop=turn.stop_reason,
        backend=asking.choice.backend,
        model=turn.model or asking.choice.model,
        ms=round((time.monotonic() - begun) * 1000),
        attempts=tuple(attempts),
        usage=turn.usage,
    )
    return _plain(record)


def _plain(value: object) -> JSON:
    """Records as JSON values, tuples as lists."""
    return decode(msgspec.json.encode(value))


async def _answered(
    op: OperationContext, asking: Asking, number: int, messages: tuple[Message, ...], attempts: list[Attempt]
) -> ModelTurn:
    """The answer of the first backend that gives one."""
    while True:
        try:
            if asking.place == 0:
                return await _with_retries(op, asking, number, messages, attempts)
            async with op.slot(asking.choice.backend):
                return await _with_retries(op, asking, number, messages, attempts)
        except ModelError as error:
            if error.error_code not in FAILOVER or asking.place + 1 >= len(asking.choices) or _is_over(asking):
                raise
            before = asking.choice
            asking.place += 1
            about: dict[str, JSON] = {
                "turn": number,
                "from": f"{before.backend}:{before.model}",
                "to": f"{asking.choice.backend}:{asking.choice.model}",
                "error_code": error.error_code,
                "error": error.message,
            }
            op.emit("agent.failover", about, again=True)


async def _with_retries(
    op: OperationContext, asking: Asking, number: int, messages: tuple[Message, ...], attempts: list[Attempt]
) -> ModelTurn:
    """The answer of one backend, asked again as `llm/retry.py` allows. Each attempt is recorded, and told as an event at once."""
    attempt = 1
    while True:
        try:
            turn = await _one(asking, number, len(attempts) + 1, messages)
        except ModelError as error:
            left = asking.left_ms()
            wait = retry.next_attempt(attempt, error, left)
            _note(op, asking, number, attempts, error=error, wait=wait)
            if wait is None:
                raise retry.final_error(attempt, error, left) from error
            await asyncio.sleep(wait / 1000)
            attempt += 1
        else:
            _note(op, asking, number, attempts, turn=turn)
            return turn


async def _one(asking: Asking, number: int, attempt: int, messages: tuple[Message, ...]) -> ModelTurn:
    """One call of the provider, within the deadline."""
    model = asking.model()
    settings = asking.settings
    request = ModelRequest(
        model=asking.choice.model,
        messages=messages,
        tools=asking.tools,
        reasoning_effort=settings["reasoning_effort"],
        max_output_tokens=settings["max_output_tokens"],
        cache_key=settings["cache_key"],
        schema=settings["schema"] if not asking.tools else None,
    )
    left = asking.left_ms()
    try:
        async with asyncio.timeout(None if left is None else max(0.0, left / 1000)):
            return await model.turn(request, lambda kind, text: asking.deliver(number, attempt, kind, text))
    except TimeoutError as error:
        raise ModelError("TIMEOUT", "The time for this agent is over.") from error


def _note(
    op: OperationContext,
    asking: Asking,
    number: int,
    attempts: list[Attempt],
    *,
    turn: ModelTurn | None = None,
    error: ModelError | None = None,
    wait: int | None = None,
) -> None:
    choice = asking.choice
    found = Attempt(
        attempt=len(attempts) + 1,
        backend=choice.backend,
        model=choice.model,
        usage=turn.usage if turn is not None else error.usage if error is not None else None,
        error=error.message if error is not None else None,
        error_code=error.error_code if error is not None else None,
    )
    attempts.append(found)
    if error is not None:
        about: dict[str, JSON] = {"turn": number, **msgspec.to_builtins(found), "retry_in_ms": wait}
        op.emit("agent.attempt.failed", about, again=True)


def _is_over(asking: Asking) -> bool:
    left = asking.left_ms()
    return left is not None and left <= 0


@operation("agent.heard", effects=False)
def hear(op: OperationContext, _input: JSON) -> JSON:
    """What people said since the last turn was asked."""
    return list(op.take_steering())
