"""The engine: makes runs, executes them under a claim, and takes what people ask of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from perdure.base import ids
from perdure.base.clock import Clock, SystemClock
from perdure.base.errors import NotFound, PerdureError
from perdure.base.jsonvalue import JSON, check, decode, encode
from perdure.kernel import definition as definitions
from perdure.kernel import large, ownership
from perdure.kernel.capacity.limits import NO_LIMITS, Limits
from perdure.kernel.ending import RunResult, left, masked_text, settle, settled_result, stopped
from perdure.kernel.events import event_of
from perdure.kernel.history import History
from perdure.kernel.lifecycle import SETTLED
from perdure.kernel.operation import StepFailed
from perdure.kernel.outcome import Failure, Outcome
from perdure.kernel.run import Frame, Run
from perdure.kernel.runlog import Committer, RunLog
from perdure.kernel.scope import Scope
from perdure.kernel.watching import Others
from perdure.store.records import EventRow, NewRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.kernel.capacity.slots import Capacity
    from perdure.kernel.definition import Definition
    from perdure.kernel.events import Event
    from perdure.kernel.interviewer import Interviewer
    from perdure.kernel.large import BlobStore
    from perdure.kernel.question import Answer
    from perdure.kernel.runlog import Mask
    from perdure.kernel.subscriber import Subscriber
    from perdure.store.protocol import Store
    from perdure.store.records import Claim, RunRow


class _Made(NamedTuple):
    """A run whose log and views are at hand."""

    run_id: str
    claim: Claim
    events: list[Event]
    subscribers: Sequence[Subscriber]

    def flush(self) -> None:
        """Let the views write what they put off."""
        for subscriber in self.subscribers:
            subscriber.flush()


class Engine:
    """Executes runs in this process.

    `subscribers` makes the views of a run from its id and its directory. With `park`, a run that waits for a person whom
    nobody here can ask is left, `waiting`, instead of being waited for. `limits` say how many agents may work at once on this machine;
    `state_root` is the folder of the state home, for those who keep files beside the log.
    """

    def __init__(  # noqa: PLR0913 - the parts that an engine is made of
        self,
        store: Store,
        blobs: BlobStore,
        *,
        subscribers: Callable[[str, str], Sequence[Subscriber]],
        run_dir: Callable[[str, int], str],
        mask: Mask | None = None,
        clock: Clock | None = None,
        park: bool = False,
        seed: int | None = None,
        limits: Limits = NO_LIMITS,
        state_root: str = "",
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.mask = mask
        self.clock = clock or SystemClock()
        self.park = park
        self.limits = limits
        self.state_root = state_root
        self._seed = seed
        self._capacity: Capacity | None = None
        self._random: Callable[[], float] | None = None
        self._subscribers = subscribers
        self._run_dir = run_dir
        self.committer = Committer(store)
        self._active: dict[str, Run] = {}
        self.others = Others(store, self._active, self._broken)
        self._made: dict[str, _Made] = {}

    def random(self) -> float:
        """A number from 0 to 1."""
        if self._random is None:
            from random import Random

            self._random = Random(self._seed).random  # noqa: S311 - spreads retries, keeps no secret
        return self._random()

    @property
    def capacity(self) -> Capacity:
        """The slots of this machine, as the runs of this engine take them."""
        if self._capacity is None:
            from perdure.kernel.capacity.slots import Capacity

            self._capacity = Capacity(self.store, self.limits, clock=self.clock)
        return self._capacity

    # Making runs

    def submit(
        self,
        definition: Definition,
        *,
        input: JSON = None,
        run_id: str | None = None,
        run_dir: str | None = None,
        parent: str | None = None,
        record: dict[str, JSON] | None = None,
        properties: dict[str, JSON] | None = None,
    ) -> str:
        """Record a run that can be executed by any process; its id.

        `record` is what listings show of it, `properties` join those of `run.created`. Raises `InvalidValue` for an input
        that is not JSON.
        """
        made = self._make(definition, input, run_id, run_dir, parent, record, properties, owned=False)
        made.flush()
        self._made[made.run_id] = made
        return made.run_id

    async def run(
        self,
        definition: Definition,
        *,
        input: JSON = None,
        run_id: str | None = None,
        run_dir: str | None = None,
        record: dict[str, JSON] | None = None,
        properties: dict[str, JSON] | None = None,
        interviewers: Sequence[Interviewer] = (),
        on_made: Callable[[str], None] | None = None,
    ) -> RunResult:
        """Make a run and execute it, owned by this process from its first commit on. `on_made` hears its id."""
        made = self._make(definition, input, run_id, run_dir, None, record, properties, owned=True)
        if on_made is not None:
            on_made(made.run_id)
        return await self._execute_made(made, definition, interviewers)

    def _make(
        self,
        definition: Definition,
        input: JSON,
        run_id: str | None,
        run_dir: str | None,
        parent: str | None,
        record: dict[str, JSON] | None,
        properties: dict[str, JSON] | None,
        *,
        owned: bool,
    ) -> _Made:
        check(input, "input")
        run_id = run_id or ids.new_ulid()
        now = self.clock.now_ms()
        run_dir = run_dir or self._run_dir(run_id, now)
        created: dict[str, JSON] = {
            "definition": {"kind": definition.kind, "name": definition.name, "body": definition.body()},
            "input": input,
            "run_dir": run_dir,
            "parent_run_id": parent,
        }
        events = [
            self._first_event(run_id, now, 1, "run.created", created | (properties or {})),
            self._first_event(run_id, now, 2, "run.submitted", {}),
        ]
        row = NewRun(
            run_id=run_id,
            name=definition.name,
            kind=definition.kind,
            status="submitted",
            created_at=now,
            run_dir=run_dir,
            record=masked_text(self.mask, record or {}),
            owner=ownership.owner_text(now) if owned else None,
            parent=parent,
        )
        claim = self.store.insert_run(row, events)
        made = _Made(run_id, claim, [event_of(run_id, event) for event in events], self._subscribers(run_id, run_dir))
        for subscriber in made.subscribers:
            subscriber.committed(made.events)
        return made

    def _first_event(self, run_id: str, now: int, seq: int, name: str, properties: dict[str, JSON]) -> EventRow:
        body = encode(properties)
        if self.mask is not None:
            body = self.mask.mask(body)
        if len(body) > 64 * 1024:
            body = large.offload(body, self.blobs, 64 * 1024)
        return EventRow(seq, ids.new_uuid7(now), now, name, None, body)

    # Executing

    async def execute(
        self,
        run_id: str,
        *,
        interviewers: Sequence[Interviewer] = (),
        accept_changes: bool = False,
        changed: Definition | None = None,
        parent: Frame | None = None,
    ) -> RunResult:
        """Own the run and interpret it until it settles, parks or pauses.

        `changed` is an edited definition to go on with. Raises `OwnedElsewhere` when another live process owns the run,
        `NotFound` when there is none; a settled run gives its outcome again.
        """
        row = self._find(run_id)
        if row.status in SETTLED:
            # Its owner may have died between the last commit and the views.
            self._level_views(row, [event_of(run_id, each) for each in self.store.read_events(row.no)])
            return settled_result(self.store, self.blobs, row)
        claim = self.store.claim(
            run_id, ownership.owner_text(self.clock.now_ms()), ownership.judge(self._active.__contains__)
        )
        try:
            row = self._find(run_id)
            made = self._made.pop(run_id, None)
            if made is None:
                made = self._taken_over(row, claim)
            definition = changed or self._recorded_definition(made.events)
        except BaseException:
            self.store.release(claim)
            raise
        made = made._replace(claim=claim)
        return await self._execute(
            row, made, definition, interviewers, changed=changed, accept_changes=accept_changes, parent=parent
        )

    async def _execute_made(
        self, made: _Made, definition: Definition, interviewers: Sequence[Interviewer]
    ) -> RunResult:
        return await self._execute(self._find(made.run_id), made, definition, interviewers)

    def _new_log(self, made: _Made) -> RunLog:
        return RunLog(
            self.committer,
            made.claim,
            last_seq=made.events[-1].seq,
            subscribers=made.subscribers,
            mask=self.mask,
            blobs=self.blobs,
            clock=self.clock,
        )

    def _taken_over(self, row: RunRow, claim: Claim) -> _Made:
        """A run that another process has left: its log, and its views brought level."""
        events = [event_of(row.run_id, each) for each in self.store.read_events(claim.no)]
        return _Made(row.run_id, claim, events, self._level_views(row, events))

    def _level_views(self, row: RunRow, events: Sequence[Event]) -> Sequence[Subscriber]:
        subscribers = self._subscribers(row.run_id, row.run_dir)
        for subscriber in subscribers:
            subscriber.catch_up(events)
        return subscribers

    async def _execute(
        self,
        row: RunRow,
        made: _Made,
        definition: Definition,
        interviewers: Sequence[Interviewer],
        *,
        changed: Definition | None = None,
        accept_changes: bool = False,
        parent: Frame | None = None,
    ) -> RunResult:
        history = History()
        history.fold(made.events)
        log = self._new_log(made)
        run = Run(
            self,
            row,
            log,
            history,
            input=self._recorded(made.events[0], "input"),
            parent=parent,
            interviewers=interviewers,
            accept_changes=accept_changes,
        )
        log.on_broken = lambda error: self._broken(run, error)
        if parent is not None:
            parent.run.children.add(run)
        self.committer.strands += 1
        try:
            self._begin(run, definition, changed)
            return await self._drive(run, definition)
        except BaseException:
            if log.broken is not None:
                with suppress(PerdureError):
                    self.store.release(made.claim)
            raise
        finally:
            self.committer.strands -= 1
            if parent is not None:
                parent.run.children.discard(run)

    def _begin(self, run: Run, definition: Definition, changed: Definition | None) -> None:
        """Say that the run is at work, with the commit of its first step."""
        owner = decode(ownership.owner_text(self.clock.now_ms()))
        if run.history.start is None:
            run.start = {"name": definition.name, "owner": owner} | definition.start_properties(run.run_id)
            run.log.add("run.started", None, run.start)
        else:
            times = run.history.resumptions + 1
            run.log.add("run.resumed", None, {"owner": owner, "previous_status": run.status, "resumption": times})
        if changed is not None:
            body: JSON = {"kind": changed.kind, "name": changed.name, "body": changed.body()}
            run.log.add("run.definition_changed", None, {"definition": body})
        run.change_status("running")
        run.log.commit_soon()

    async def _drive(self, run: Run, definition: Definition) -> RunResult:
        self._active[run.run_id] = run
        self.others.watch()
        run.task = asyncio.get_running_loop().create_task(definition.interpret(Scope(run, Frame(run), "")))
        try:
            outcome = await run.task
        except asyncio.CancelledError:
            return stopped(run)
        except StepFailed as error:
            return settle(run, Outcome("failed", "workflow_error", error.failure))
        except Exception as error:
            left(run, error)
            raise
        else:
            return settle(run, outcome)
        finally:
            del self._active[run.run_id]

    def cancel_idle(self, run_id: str, reason: str) -> None:
        """Settle a run that nobody executes as cancelled. Raises `OwnedElsewhere` when somebody does."""
        judge = ownership.judge(self._active.__contains__)
        claim = self.store.claim(run_id, ownership.owner_text(self.clock.now_ms()), judge)
        row = self._find(run_id)
        made = self._taken_over(row, claim)
        run = Run(
            self,
            row,
            self._new_log(made),
            History(),
            input=None,
            parent=None,
            interviewers=(),
            accept_changes=False,
        )
        run.log.add("run.cancel_requested", None, {"reason": reason})
        settle(run, Outcome("cancelled", "cancelled", Failure(reason, "canceled", code="cancelled")))

    def _broken(self, run: Run, error: BaseException) -> None:
        run.fail(error)
        if run.task is not None:
            run.task.cancel()

    # What people ask

    def answer(self, question_id: str, answer: Answer) -> bool:
        """Record an answer for whoever waits. False when it was answered before: the first answer counts."""
        text = encode(answer)
        if self.mask is not None:
            text = self.mask.mask(text)
        return self.store.answer(question_id, text.decode(), self.clock.now_ms())

    # Reading back

    def _find(self, run_id: str) -> RunRow:
        row = self.store.find_run(run_id)
        if row is None:
            raise NotFound(f"There is no run {run_id}.", hint="`perdure ps -a` lists all runs.")
        return row

    def _recorded(self, created: Event, key: str) -> JSON:
        return large.resolve(created.properties.get(key), self.blobs)

    def _recorded_definition(self, events: Sequence[Event]) -> Definition:
        """The definition that the run was made with, or went on with last."""
        source = events[0]
        for event in events:
            if event.event == "run.definition_changed":
                source = event
        found = self._recorded(source, "definition")
        assert isinstance(found, dict)
        return definitions.load(str(found["kind"]), found["body"])  # type: ignore[arg-type]
