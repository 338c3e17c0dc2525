"""One run while it is executed here: its log, its history, and what makes it wait or stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from perdure.base import jsonvalue
from perdure.base.jsonvalue import JSON
from perdure.kernel import large
from perdure.kernel.lifecycle import check_transition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.base.clock import Clock
    from perdure.kernel.engine import Engine
    from perdure.kernel.history import History
    from perdure.kernel.interviewer import Interviewer
    from perdure.kernel.large import BlobStore
    from perdure.kernel.runlog import Mask, RunLog
    from perdure.store.records import RunRow

Stop = Literal["parked", "paused", "cancelled", "interrupted"]


class Run:
    """The state that all contexts of one executed run share.

    `executing` counts the places where the run is at work: the interpreter and each operation, less those that wait for steps
    inside them. At zero everything waits for something outside, and the run may park.
    """

    def __init__(
        self,
        engine: Engine,
        row: RunRow,
        log: RunLog,
        history: History,
        *,
        input: JSON,
        parent: Frame | None,
        interviewers: Sequence[Interviewer],
        accept_changes: bool,
    ) -> None:
        self.engine = engine
        self.row = row
        self.run_id = row.run_id
        self.run_dir = row.run_dir
        self.log = log
        self.history = history
        self.input = input
        self.status = row.status
        self.local: Any = None
        self.start: dict[str, JSON] = history.start or {}
        self.task: asyncio.Task[Any] | None = None
        self.stop: Stop | None = None
        self.stop_reason: str | None = None
        self.pausing: str | None = None
        self.fatal: BaseException | None = None
        self.executing = 1
        self.timers = 0
        self.slot_waits = 0
        self.questions: dict[str, asyncio.Future[str]] = {}
        self.steering = history.untaken_steering()
        self.children: set[Run] = set()
        self.interviewers = interviewers
        self.accept_changes = accept_changes
        self._parent = parent
        self._parent_waits = False
        self._idle_check_due = False
        self._is_shown = False

    @property
    def clock(self) -> Clock:
        return self.engine.clock

    @property
    def parent_stop(self) -> Stop | None:
        """Why the parent run stops, when this is a child."""
        return self._parent.stop if self._parent is not None else None

    @property
    def mask(self) -> Mask | None:
        return self.engine.mask

    @property
    def blobs(self) -> BlobStore:
        return self.engine.blobs

    def checked(self, value: JSON, path: str) -> JSON:
        """The value as it will be recorded: JSON, and without secrets, so that a replay sees just the same."""
        jsonvalue.check(value, path)
        if self.mask is None or value is None or isinstance(value, (bool, int, float)):
            return value
        text = jsonvalue.encode(value)
        masked = self.mask.mask(text)
        return value if masked == text else jsonvalue.decode(masked)

    def resolve(self, properties: dict[str, JSON], key: str) -> JSON:
        """A recorded property, read from its blob when it lies in one."""
        return large.resolve(properties.get(key), self.blobs)

    def change_status(self, status: str) -> None:
        """A new status with the next commit."""
        check_transition(self.run_id, self.status, status)
        self.status = status
        self.log.set_status(status)

    def show(self) -> None:
        """Before the first thing that the run does outside, its directory is there."""
        if not self._is_shown:
            self._is_shown = True
            self.log.flush()

    def fail(self, error: BaseException) -> None:
        """Remember an error of the engine itself, which no step may take for its own failure."""
        if self.fatal is None:
            self.fatal = error

    def halt(self, stop: Stop, reason: str | None = None) -> None:
        """Stop interpreting: what was begun and not finished is interrupted."""
        if self.stop is None and self.task is not None:
            self.stop = stop
            self.stop_reason = reason
            self.task.cancel()

    # Waiting

    def may_be_idle(self) -> None:
        """Look, when this turn of the event loop is over, whether everything waits."""
        if not self._idle_check_due:
            self._idle_check_due = True
            # Two turns of the loop: in the first, whoever can answer at once does.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_check_due = False
        if self.executing > 0 or self.stop is not None or any(each.done() for each in self.questions.values()):
            return
        if self.pausing is not None:
            self.halt("paused", self.pausing)
            return
        if self.status == "running" and (self._has_questions() or self._has_timers()):
            self.wait()
            if not self.log.commit_late():
                return
            self.log.flush()
        if self._parent is not None:
            # Only the outermost run parks: another of its branches may still be at work.
            if not self._parent_waits:
                self._parent_waits = True
                self._parent.wait_begins()
        elif self.engine.park and self._waits_for_people_only() and not self.can_be_answered_here():
            self.halt("parked")

    def wait(self) -> None:
        """The run waits for something outside itself."""
        self.log.add("run.waiting", None, {"questions": list(self.questions)})
        self.change_status("waiting")

    def _waits_for_people_only(self) -> bool:
        return self._has_questions() and not self._has_timers() and not self._waits_for_slots()

    def _has_questions(self) -> bool:
        return bool(self.questions) or any(child._has_questions() for child in self.children)

    def _has_timers(self) -> bool:
        return self.timers > 0 or any(child._has_timers() for child in self.children)

    def _waits_for_slots(self) -> bool:
        """Whether a branch goes on by itself as soon as an agent elsewhere is done."""
        return self.slot_waits > 0 or any(child._waits_for_slots() for child in self.children)

    def can_be_answered_here(self) -> bool:
        """Whether somebody who can answer is there."""
        return any(interviewer.is_present for interviewer in self.interviewers)

    def is_at_work(self) -> None:
        """A wait is over."""
        if self._parent_waits and self._parent is not None:
            self._parent_waits = False
            self._parent.wait_ends()
        if self.status == "waiting" and self.stop is None:
            self.log.add("run.running", None, {})
            self.change_status("running")


class Frame:
    """A place where a run is at work: its interpreter, or one operation, with as many strands as it has branches under way."""

    __slots__ = ("_run", "_strands", "_waits")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._strands = 1
        self._waits = 0

    @property
    def run(self) -> Run:
        """The run of this place."""
        return self._run

    @property
    def stop(self) -> Stop | None:
        """Why the run of this place stops."""
        return self._run.stop or self._run.parent_stop

    def wait_begins(self) -> None:
        """A strand of this place waits for a step inside it, a question or a time; one may wait for several at once."""
        self._change(0, 1)

    def wait_ends(self) -> None:
        """One wait is over."""
        self._change(0, -1)

    def branch_begins(self) -> None:
        """One more strand is at work in this place."""
        self._change(1, 0)

    def branch_ends(self) -> None:
        """A strand came to its end; whoever gathers the strands still waits."""
        self._change(-1, 0)

    def _change(self, strands: int, waits: int) -> None:
        run = self._run
        before = max(0, self._strands - self._waits)
        self._strands += strands
        self._waits += waits
        more = max(0, self._strands - self._waits) - before
        if more > 0 and run.executing <= 0:
            run.is_at_work()
        run.executing += more
        if more < 0 and run.executing <= 0:
            run.may_be_idle()
