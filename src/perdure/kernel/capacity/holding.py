"""Holding a slot while an agent works: how a step of a run waits for one, says so, and lets it go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from perdure.base.jsonvalue import JSON
from perdure.kernel.capacity.slots import Wish
from perdure.kernel.capacity.tags import checked_tags, covers

if TYPE_CHECKING:
    from perdure.kernel.run import Frame, Run
    from perdure.kernel.scope import OperationScope

# What the agents hold inside which this code runs: backends, and tags.
_held_backends: ContextVar[frozenset[str]] = ContextVar("held_backends", default=frozenset())
_held_tags: ContextVar[tuple[str, ...]] = ContextVar("held_tags", default=())
_holdings: ContextVar[tuple[_Holding, ...]] = ContextVar("holdings", default=())


@asynccontextmanager
async def slot(
    op: OperationScope, run: Run, frame: Frame, backend: str, *, tags: Sequence[str], remaining: int
) -> AsyncIterator[None]:
    """See `context.OperationContext.slot`."""
    outer_backends, outer_tags = _held_backends.get(), _held_tags.get()
    wanted = tuple(tag for tag in checked_tags(tags) if not any(covers(held, tag) for held in outer_tags))
    is_inside = backend in outer_backends
    if (is_inside and not wanted) or not (wanted or backend in run.engine.limits.backends):
        yield
        return
    # Only the tags are asked for inside a slot of the same backend; no backend has the empty name, so none limits it.
    wish = Wish("" if is_inside else backend, run.run_id, op.step_id, wanted, remaining)
    holding = _Holding(op, run, wish)
    await holding.take(frame)
    try:
        backends = _held_backends.set(outer_backends | {backend})
        held = _held_tags.set((*outer_tags, *wanted))
        holdings = _holdings.set((*_holdings.get(), holding))
        try:
            yield
        finally:
            _held_backends.reset(backends)
            _held_tags.reset(held)
            _holdings.reset(holdings)
    finally:
        holding.let_go()


@asynccontextmanager
async def given_back(frame: Frame) -> AsyncIterator[None]:
    """While a person is asked, others may work in the slot; then this agent goes on in one again. With mutex tags it keeps all, as what
    it uses must stay as it left it. When the wait ends otherwise than by an answer, nothing is taken again."""
    holdings = _holdings.get()
    if any(each.wish.tags for each in holdings):
        holdings = ()
    for each in reversed(holdings):
        each.let_go()
    yield
    for each in holdings:
        await each.take(frame)


class _Holding:
    """What one agent holds, or has given back for a while. Strands that work in it share it: the first to go on takes it again."""

    def __init__(self, op: OperationScope, run: Run, wish: Wish) -> None:
        self.wish = wish
        self._op = op
        self._run = run
        self._slot_id: int | None = None
        self._taking = asyncio.Lock()

    async def take(self, frame: Frame) -> None:
        """Wait until it is held."""
        frame.wait_begins()
        try:
            async with self._taking:
                if self._slot_id is None:
                    waiting = _Waiting(self._op, self._run, self.wish)
                    self._slot_id = await waiting.acquired()
                    waiting.say_that_it_is_over()
        finally:
            frame.wait_ends()

    def let_go(self) -> None:
        """Give it back, when it is held."""
        if self._slot_id is not None:
            self._run.engine.capacity.release(self._slot_id)
            self._slot_id = None


class _Waiting:
    """One wait for a slot, and what the log hears of it."""

    def __init__(self, op: OperationScope, run: Run, wish: Wish) -> None:
        self._op = op
        self._run = run
        self._wish = wish
        self._about: dict[str, JSON] = {"backend": wish.backend, "tags": list(wish.tags)}
        self._asked = run.clock.monotonic_ms()
        self._has_waited = False

    async def acquired(self) -> int:
        """The slot's id. The run waits for it as for a person: it is not at work meanwhile, can be stopped at once, and starts
        nothing once it is to pause."""
        run = self._run
        run.slot_waits += 1
        try:
            return await run.engine.capacity.acquire(
                self._wish, may_start=lambda: run.pausing is None and run.stop is None, on_wait=self._say
            )
        finally:
            run.slot_waits -= 1

    def _say(self, reason: str) -> None:
        self._has_waited = True
        told = self._about | {"limit": self._run.engine.limits.backends.get(self._wish.backend), "text": reason}
        self._op.emit("agent.slot.waiting", told, again=True)

    def say_that_it_is_over(self) -> None:
        if self._has_waited:
            told = self._about | {"waited_ms": round(self._run.clock.monotonic_ms() - self._asked)}
            self._op.emit("agent.slot.taken", told, again=True)
