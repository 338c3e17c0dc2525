"""The log of one run as its owner writes it: events gather, then go into one commit, then subscribers hear of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from perdure.base import ids
from perdure.base.clock import Clock
from perdure.base.errors import PerdureError
from perdure.base.jsonvalue import JSON, encode
from perdure.kernel import large
from perdure.kernel.events import Event
from perdure.kernel.large import BlobStore
from perdure.kernel.subscriber import Subscriber
from perdure.store.protocol import Store
from perdure.store.records import Addition, Change, Claim, Settlement

MAX_BODY = 64 * 1024


class Mask(Protocol):
    """Replaces secrets in bytes that are about to be written."""

    def mask(self, text: bytes) -> bytes:
        """The text without secrets."""


class LogBroken(PerdureError):
    """A commit failed, so nothing more may happen in this run in this process."""

    code = "state_not_saved"


class RunLog:
    """Writes one run's events."""

    def __init__(
        self,
        committer: Committer,
        claim: Claim,
        *,
        last_seq: int,
        subscribers: Sequence[Subscriber],
        mask: Mask | None,
        blobs: BlobStore,
        clock: Clock,
    ) -> None:
        self.run_id = claim.run_id
        self.broken: BaseException | None = None
        self.on_broken: Callable[[BaseException], None] = lambda _error: None
        self.last_event_at = clock.monotonic_ms()
        self._committer = committer
        self._claim = claim
        self._seq = last_seq
        self._subscribers = subscribers
        self._mask = mask
        self._blobs = blobs
        self._clock = clock
        self._pending: list[Event] = []
        self._change = _ChangeInProgress()
        self._commit_due = False

    def add(self, event: str, step: str | None, properties: dict[str, JSON]) -> None:
        """An event for the next commit. Its values must have been checked to be JSON."""
        body = encode(properties)
        if self._mask is not None:
            body = self._mask.mask(body)
        if len(body) > MAX_BODY:
            body = large.offload(body, self._blobs, MAX_BODY)
        self._seq += 1
        now = self._clock.now_ms()
        self._pending.append(Event(ids.new_uuid7(now), now, self.run_id, self._seq, event, step, body))

    def set_status(self, status: str) -> None:
        """The run's status from the next commit on."""
        self._change.status = status

    def settle(self, settlement: Settlement) -> None:
        """The run ends with the next commit."""
        self._change.settled = settlement

    def open_question(self, question_id: str, step: str, question: str) -> None:
        """Others can see and answer the question from the next commit on."""
        self._change.open_questions.append((question_id, step, self._clock.now_ms(), question))

    def close_question(self, question_id: str) -> None:
        """Nobody waits for the answer any more, from the next commit on."""
        self._change.close_questions.append(question_id)

    def take_request(self, request_id: int) -> None:
        """The request counts as seen from the next commit on."""
        self._change.taken_requests.append(request_id)

    def release(self) -> None:
        """Nobody owns the run any more, from the next commit on."""
        self._change.release = True

    def commit(self) -> None:
        """Make everything that was added durable, now. Raises `LogBroken` after a commit has failed once."""
        self._committer.commit([self])

    async def committed(self) -> None:
        """Return when everything that was added so far is durable."""
        committer = self._committer
        if committer.strands <= 1:
            committer.commit([self])
        else:
            await committer.join(self)

    def commit_soon(self) -> None:
        """Make what was added durable in this turn of the event loop, unless a commit comes first."""
        if not self._commit_due:
            self._commit_due = True
            asyncio.get_running_loop().call_soon(self.commit_late)

    def commit_late(self) -> bool:
        """Commit from a callback of the event loop, where nobody takes an error: `on_broken` hears of it."""
        self._commit_due = False
        if self.broken is not None:
            return False
        try:
            self.commit()
        except Exception as error:  # noqa: BLE001 - `on_broken` stops the run with it
            self.on_broken(error)
            return False
        return True

    def flush(self) -> None:
        """Let the subscribers write what they put off."""
        for subscriber in self._subscribers:
            subscriber.flush()

    def take(self) -> Addition | None:
        """What is to be committed; None when there is nothing. Raises `LogBroken`."""
        if self.broken is not None:
            raise LogBroken(f"Run {self.run_id} stopped because its log could not be written.") from self.broken
        change = self._change.taken(self._clock)
        if not self._pending and change is None:
            return None
        events, self._pending = self._pending, []
        return Addition(self._claim, events, change)  # type: ignore[arg-type]

    def told(self, addition: Addition) -> None:
        """The commit was made: the subscribers hear of it."""
        self.last_event_at = self._clock.monotonic_ms()
        try:
            for subscriber in self._subscribers:
                subscriber.committed(addition.events)  # type: ignore[arg-type]
        except BaseException as error:
            self.broken = error
            raise


class Committer:
    """Makes commits for all runs of one engine.

    While there is one strand, a commit is made at once. With several (branches of a run, or runs), all that became ready in
    one turn of the event loop share one commit, and with it the fsync.
    """

    def __init__(self, store: Store) -> None:
        self.strands = 0
        self._store = store
        self._waiting: list[tuple[RunLog, asyncio.Future[None]]] = []

    def commit(self, logs: Sequence[RunLog]) -> None:
        """One commit for what these logs have. Raises what went wrong; then those logs are broken."""
        taken = [(log, addition) for log in logs if (addition := log.take()) is not None]
        if not taken:
            return
        try:
            refused = self._store.append_all([addition for _log, addition in taken])
        except BaseException as error:
            for log, _addition in taken:
                log.broken = error
            raise
        failure: BaseException | None = None
        for (log, addition), lost in zip(taken, refused, strict=True):
            if lost is None:
                log.told(addition)
            else:
                log.broken = failure = lost
        if failure is not None:
            raise failure

    async def join(self, log: RunLog) -> None:
        """Wait for the commit that this turn of the event loop ends with."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._commit_waiting)
        self._waiting.append((log, waiter))
        await waiter

    def _commit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        failure: BaseException | None = None
        logs = list(dict.fromkeys(log for log, _waiter in waiting if log.broken is None))
        try:
            self.commit(logs)
        except BaseException as error:  # noqa: BLE001 - handed to everyone whose log it concerns
            failure = error
        for log, waiter in waiting:
            if waiter.done():
                continue
            if log.broken is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(failure or LogBroken(f"Run {log.run_id} stopped: its log could not be written."))


class _ChangeInProgress:
    """What goes with the next commit besides events."""

    __slots__ = ("close_questions", "open_questions", "release", "settled", "status", "taken_requests")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.status: str | None = None
        self.settled: Settlement | None = None
        self.open_questions: list[tuple[str, str, int, str]] = []
        self.close_questions: list[str] = []
        self.taken_requests: list[int] = []
        self.release = False

    def taken(self, clock: Clock) -> Change | None:
        """The change for a commit, None when there is none; begins a new one."""
        empty = not (self.status or self.settled or self.open_questions or self.close_questions)
        if empty and not self.taken_requests and not self.release:
            return None
        change = Change(
            status=self.status,
            at=clock.now_ms(),
            settled=self.settled,
            open_questions=tuple(self.open_questions),
            close_questions=tuple(self.close_questions),
            taken_requests=tuple(self.taken_requests),
            release=self.release,
        )
        self._clear()
        return change
