"""Slots: the right of one agent to be at work on a backend, and to use what its mutex tags name, on this whole machine.

They are rows of the store, so every run of every notation in every process of one state home counts. Whoever waits holds nothing.
Rows of a process that died are dropped by whoever asks next, told by the process's identity and never by age.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from perdure.base.errors import EnvironmentFault, PerdureError
from perdure.disk import process
from perdure.kernel.capacity.limits import NO_LIMITS, Limits
from perdure.kernel.capacity.line import Verdict, View, cause, decide
from perdure.store.records import SlotChange, SlotRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.base.clock import Clock
    from perdure.store.protocol import Store
    from perdure.store.records import SlotRow

# How often a process that waits looks whether another one has let go.
LOOK_S = 0.1
# How long a free slot is left to a live process whose turn it is: one that is stopped, or hangs, must not keep all others waiting.
COURTESY_MS = 1_000


class Wish(msgspec.Struct, frozen=True):
    """What an agent step needs before it starts; `remaining` is how long the way is that still follows in its run."""

    backend: str
    run_id: str
    step: str
    tags: tuple[str, ...] = ()
    remaining: int = 0


class _Waiter:
    """One who waits here. `may_start` is false while its run is to pause."""

    __slots__ = ("granted", "may_start", "on_wait", "told", "wish")

    def __init__(
        self, wish: Wish, granted: asyncio.Future[None], may_start: Callable[[], bool], on_wait: Callable[[str], None]
    ) -> None:
        self.wish = wish
        self.granted = granted
        self.may_start = may_start
        self.on_wait = on_wait
        self.told = ""


class Capacity:
    """The slots of one engine's runs. Used from one thread."""

    def __init__(self, store: Store, limits: Limits = NO_LIMITS, *, clock: Clock) -> None:
        self.limits = limits
        self._store = store
        self._clock = clock
        self._me = ""
        self._waiters: dict[int, _Waiter] = {}
        self._rows: Sequence[SlotRow] = ()
        self._due: dict[int, float] = {}
        self._owed: list[int] = []
        self._looking: asyncio.TimerHandle | None = None

    def concerns(self, backend: str, tags: Sequence[str]) -> bool:
        """Whether there is anything to wait for. Without a limit and without tags nothing is written at all."""
        return bool(tags) or backend in self.limits.backends

    async def acquire(
        self,
        wish: Wish,
        *,
        may_start: Callable[[], bool] = lambda: True,
        on_wait: Callable[[str], None] = lambda _reason: None,
    ) -> int:
        """The id of a slot that is held, with all tags, until `release`. While it waits, `on_wait` hears why, and again when the cause
        is another one. Cancelled, it leaves nothing behind. Raises what the store raises."""
        waiter = _Waiter(wish, asyncio.get_running_loop().create_future(), may_start, on_wait)
        slot_id = self._ask(waiter)
        if waiter.granted.done():
            return slot_id
        try:
            self._tell(self._rows)
            self._look_later()
            await waiter.granted
        except BaseException:
            self.release(slot_id)
            raise
        return slot_id

    def release(self, slot_id: int) -> None:
        """Let go, and let those here go on whose turn it is. It never raises for a state that cannot be written, as what was done in
        the slot must not be lost for that: the slot is let go as soon as the state can be written again."""
        self._waiters.pop(slot_id, None)
        self._owed.append(slot_id)
        with suppress(PerdureError):
            self._advance()
        if self._owed:
            self._look_later()
        elif not self._waiters and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    # The table

    def _ask(self, waiter: _Waiter) -> int:
        """Stand in the line, and start at once when it is free: one transaction."""
        self._me = msgspec.json.encode(process.current()).decode()
        wish = waiter.wish
        tags = " ".join(wish.tags)
        now = self._clock.now_ms()
        change = self._change(
            SlotRequest(wish.backend, self._me, wish.run_id, wish.step, tags, wish.remaining, now), waiter
        )
        assert change.asked is not None
        self._waiters[change.asked] = waiter
        self._grant(change)
        return change.asked

    def _change(self, ask: SlotRequest | None = None, newcomer: _Waiter | None = None) -> SlotChange:
        """One transaction: free what is owed, take what is ours."""
        now = self._clock.now_ms()

        def decided(rows: Sequence[SlotRow]) -> SlotChange:
            change = self._verdict(rows, now, newcomer).change
            times = dict(change.taken)
            self._rows = [
                row._replace(taken_at=times.get(row.id, row.taken_at)) for row in rows if row.id not in change.dropped
            ]
            return change

        change = self._store.slots.change(decided, ask=ask, free=tuple(self._owed))
        self._owed.clear()
        return change

    def _verdict(self, rows: Sequence[SlotRow], now: int, newcomer: _Waiter | None = None) -> Verdict:
        def may_start(slot_id: int) -> bool:
            waiter = self._waiters.get(slot_id)
            if waiter is None and slot_id == rows[-1].id:
                waiter = newcomer
            # A row of this process that nobody here waits for belongs to another engine of it.
            return waiter is not None and waiter.may_start()

        return decide(rows, View(self._me, self.limits.backends, is_gone, may_start, self._passed()), now)

    def _advance(self) -> None:
        """Free and take; when nobody waits here, only free."""
        if self._waiters:
            self._grant(self._change())
            self._tell(self._rows)
        else:
            self._store.slots.change(lambda _rows: SlotChange(), free=tuple(self._owed))
            self._owed.clear()

    def _grant(self, change: SlotChange) -> None:
        for slot_id, _at in change.taken:
            waiter = self._waiters.pop(slot_id)
            if not waiter.granted.done():
                waiter.granted.set_result(None)

    def _tell(self, rows: Sequence[SlotRow]) -> None:
        """Say why each waits, when that is news."""
        known = {row.id: row for row in rows}
        for slot_id, waiter in list(self._waiters.items()):
            row = known.get(slot_id)
            why = cause(row, rows, self.limits.backends) if row is not None else None
            if why is None and not waiter.told:
                why = f"Waiting for {' '.join((waiter.wish.backend, *waiter.wish.tags))}: others here waited longer."
            if why is not None and why != waiter.told:
                waiter.told = why
                waiter.on_wait(why)

    # Other processes

    def _look_later(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Has another process let go, or died? Only when there is something to take is a transaction begun."""
        self._looking = None
        try:
            if self._owed or (self._waiters and self._has_turn()):
                self._advance()
        except EnvironmentFault:
            # Busy, or the disk is full: the line stays as it is, and the runs here hear of it with their next commit.
            pass
        except PerdureError as error:
            for waiter in self._waiters.values():
                if not waiter.granted.done():
                    waiter.granted.set_exception(error)
            return
        if self._waiters or self._owed:
            self._look_later()

    def _has_turn(self) -> bool:
        """Whether one who waits here may start now."""
        rows = self._store.slots.rows()
        verdict = self._verdict(rows, 0)
        now = self._clock.monotonic_ms()
        waiting = {row.id for row in rows if row.taken_at is None}
        due = waiting.intersection([*verdict.others_due, *self._passed()])
        self._due = {slot_id: self._due.get(slot_id, now) for slot_id in due}
        self._tell(rows)
        return bool(verdict.change.taken)

    def _passed(self) -> list[int]:
        """Those of other processes that were due for long enough and took nothing."""
        before = self._clock.monotonic_ms() - COURTESY_MS
        return [slot_id for slot_id, since in self._due.items() if since <= before]


def is_gone(owner: str) -> bool:
    """Whether the process of a row has ended. One of another host, or one that cannot be read, counts as alive."""
    try:
        identity = msgspec.json.decode(owner, type=process.Identity)
    except msgspec.DecodeError:
        return False
    return process.liveness(identity) == "dead"
