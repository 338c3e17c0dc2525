"""The contexts that interpreters and operations get: where a step's id comes from, and the one path by which it is answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON, decode, digest, encode
from perdure.kernel import large, stepping, waiting
from perdure.kernel.lifecycle import SETTLED
from perdure.kernel.operation import StepFailed, find_operation
from perdure.kernel.retry import NO_RETRY, Retry
from perdure.kernel.stepping import failure_of
from perdure.kernel.waiting import replayed_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from perdure.kernel.context import OnInterrupt
    from perdure.kernel.definition import Definition
    from perdure.kernel.history import StepRecord
    from perdure.kernel.outcome import Outcome
    from perdure.kernel.question import Answer, Question
    from perdure.kernel.run import Frame, Run

T = TypeVar("T")


class ReplayDiverged(Refused):
    """The log has another step in the place of this one, so its result may not be used."""

    code = "replay_diverged"


class Scope:
    """A place in the tree of steps. See `context.RunContext`."""

    __slots__ = ("_emitted", "_frame", "_prefix", "_run", "_visits", "path")

    def __init__(self, run: Run, frame: Frame, path: str) -> None:
        self.path = path
        self._prefix = f"{path}/" if path else ""
        self._run = run
        self._frame = frame
        self._visits: dict[str, int] = {}
        self._emitted: dict[str, int] = {}

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def run_dir(self) -> str:
        return self._run.run_dir

    @property
    def input(self) -> JSON:
        return self._run.input

    @property
    def start(self) -> dict[str, JSON]:
        return self._run.start

    @property
    def local(self) -> Any:
        return self._run.local

    @local.setter
    def local(self, value: Any) -> None:
        self._run.local = value

    # Identity

    def _enter(self, name: str) -> str:
        """The id of the next visit of this name here."""
        visit = self._visits.get(name, 0) + 1
        self._visits[name] = visit
        if visit == 1:
            if not name or "/" in name or "@" in name:
                raise Refused(f"{name!r} cannot name a step: a name is not empty and has no '/' or '@'.")
            return self._prefix + name
        return f"{self._prefix}{name}@{visit}"

    def scope(self, name: str) -> Scope:
        return Scope(self._run, self._frame, self._enter(name))

    # Steps

    async def step(
        self,
        name: str,
        operation: str,
        input: Any = None,
        *,
        retry: Retry = NO_RETRY,
        on_interrupt: OnInterrupt = "rerun",
        properties: dict[str, Any] | None = None,
    ) -> JSON:
        run = self._run
        step_id = self._enter(name)
        if input is not None:
            input = run.checked(input, "input")
        input_digest = digest([operation, input])
        record = run.history.steps.get(step_id)
        if record is not None:
            self._check_same(step_id, operation, input_digest, record)
            if record.end is not None:
                return self._replayed(step_id, record)
        if run.pausing is not None:
            await waiting.for_ever(self._frame)
        plan = stepping.Plan(
            step_id, find_operation(operation), input, input_digest, retry, on_interrupt, properties or {}
        )
        return await stepping.execute(run, self._frame, plan, record)

    def _check_same(self, step_id: str, operation: str, input_digest: str, record: StepRecord) -> None:
        if record.operation == operation and record.input_digest == input_digest:
            return
        run = self._run
        if run.accept_changes:
            self.emit("run.change_accepted", {"step_id": step_id, "recorded": record.operation, "now": operation})
            return
        error = ReplayDiverged(
            f"Run {run.run_id}: the log has at step {step_id!r} operation {record.operation!r} with input digest "
            f"{record.input_digest}; the definition now asks for {operation!r} with {input_digest}.",
            hint="Go on with what was recorded by `perdure resume --accept-changes`, or fork the run.",
        )
        run.fail(error)
        raise error

    def _replayed(self, step_id: str, record: StepRecord) -> JSON:
        properties: dict[str, JSON] = decode(record.body)  # type: ignore[assignment]
        result = self._run.resolve(properties, "result")
        if record.end == "failed":
            raise StepFailed(step_id, failure_of(properties), result)
        return result

    # Waiting

    async def ask(self, name: str, question: Question) -> Answer:
        step_id = self._enter(name)
        input_digest = waiting.question_digest(question)
        record = self._run.history.steps.get(step_id)
        if record is not None:
            self._check_same(step_id, "kernel.ask", input_digest, record)
            if record.end is not None:
                return replayed_answer(record)
        from perdure.kernel.capacity.holding import given_back

        async with given_back(self._frame):
            return await waiting.ask(self._run, self._frame, step_id, question, input_digest, record)

    async def sleep(self, name: str, duration_ms: int) -> None:
        step_id = self._enter(name)
        input_digest = digest(["kernel.sleep", duration_ms])
        record = self._run.history.steps.get(step_id)
        if record is not None:
            self._check_same(step_id, "kernel.sleep", input_digest, record)
            if record.end is not None:
                return
        await waiting.sleep(self._run, self._frame, step_id, duration_ms, input_digest, record)

    async def child(
        self,
        name: str,
        definition: Definition,
        input: Any = None,
        *,
        run_dir: str | None = None,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        from perdure.kernel import children

        step_id = self._enter(name)
        input = self._run.checked(input, "input")
        input_digest = digest(["kernel.child", definition.kind, definition.name, input])
        record = self._run.history.steps.get(step_id)
        if record is not None:
            self._check_same(step_id, "kernel.child", input_digest, record)
            if record.end is not None:
                return children.replayed_outcome(self._run, record)
        request = children.ChildRequest(step_id, definition, input, input_digest, run_dir, is_unwanted)
        return await children.execute(self._run, self._frame, request, record)

    async def now_ms(self) -> int:
        return int(await self._reading("+now", "kernel.now", self._run.clock.now_ms))  # type: ignore[arg-type]

    async def random(self) -> float:
        return float(await self._reading("+random", "kernel.random", self._run.engine.random))  # type: ignore[arg-type]

    async def _reading(self, name: str, operation: str, read: Callable[[], JSON]) -> JSON:
        """A value from outside, recorded by one event."""
        step_id = self._enter(name)
        record = self._run.history.steps.get(step_id)
        input_digest = digest([operation, None])
        if record is not None and record.end is not None:
            self._check_same(step_id, operation, input_digest, record)
            return self._replayed(step_id, record)
        value = read()
        log = self._run.log
        log.add("step.completed", step_id, {"operation": operation, "input_digest": input_digest, "result": value})
        await log.committed()
        return value

    # Concurrency

    async def gather(self, branches: Sequence[Callable[[], Awaitable[T]]], limit: int | None = None) -> list[T]:
        if not branches:
            return []
        count = min(limit or len(branches), len(branches))
        results: list[Any] = [None] * len(branches)
        turn = iter(enumerate(branches))

        left = count

        async def worker() -> None:
            nonlocal left
            try:
                for index, branch in turn:
                    results[index] = await branch()
            finally:
                left -= 1
                if left:
                    # The last one leaves its strand to whoever gathers, so that the run never looks idle between the two.
                    self._frame.branch_ends()

        self._run.engine.committer.strands += count - 1
        for _ in range(count):
            self._frame.branch_begins()
        self._frame.wait_begins()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    group.create_task(worker())
        except BaseExceptionGroup as errors:
            raise _first_error(errors) from errors
        finally:
            self._frame.wait_ends()
            for _ in range(max(left, 1)):  # a worker that was cancelled before it began has not ended its own
                self._frame.branch_ends()
            self._run.engine.committer.strands -= count - 1
        return results

    # History that is no step

    def emit(self, event: str, properties: dict[str, Any] | None = None, *, again: bool = False) -> None:
        run = self._run
        if not again:
            count = self._emitted.get(event, 0) + 1
            self._emitted[event] = count
            if len(run.history.emitted.get((self.path, event), ())) >= count:
                return
        values = properties or {}
        run.log.add(event, self.path or None, run.checked(values, event))  # type: ignore[arg-type]
        run.log.commit_soon()

    async def flush(self) -> None:
        """Return when all that was emitted is durable, and the views show it."""
        await self._run.log.committed()
        self._run.log.flush()

    def recorded(self, event: str) -> list[dict[str, JSON]]:
        """The properties of the events of that name that earlier owners wrote in this scope, oldest first."""
        return [found.properties for found in self._run.history.emitted.get((self.path, event), ())]

    @property
    def idle_ms(self) -> float:
        """How long ago the run last recorded an event; 0 while it waits for something outside itself."""
        run = self._run
        return 0.0 if run.executing <= 0 else run.clock.monotonic_ms() - run.log.last_event_at

    @property
    def mask(self) -> Any:
        """What takes secrets out of text, or None when there are none."""
        return self._run.mask

    def resolve(self, value: JSON) -> JSON:
        """A recorded value, read from its blob when it lies in one."""
        return large.resolve(value, self._run.blobs)

    @property
    def has_steering(self) -> bool:
        """Whether people said something to the run that no step has taken yet."""
        return bool(self._run.steering)

    def take_steering(self) -> list[str]:
        """What people said to the run since this was last asked; first what an owner who died had taken here."""
        texts = [str(text) for each in self.recorded("run.steering_taken") for text in each["texts"]]  # type: ignore[union-attr]
        taken, self._run.steering = self._run.steering, []
        if taken:
            self.emit("run.steering_taken", {"texts": list(taken)}, again=True)
        return texts + taken

    @property
    def is_attended(self) -> bool:
        """Whether somebody who can answer a question is there now."""
        return self._run.can_be_answered_here()

    @property
    def state_root(self) -> str:
        """The folder of the state home that the run belongs to, "" when it has none."""
        return self._run.engine.state_root

    @property
    def state_id(self) -> str:
        """The id of the state that the run is recorded in."""
        return self._run.engine.store.state_id()

    @property
    def keeps_conversations(self) -> bool:
        """Whether this machine's limits let conversations of agents be saved beside the log."""
        return self._run.engine.limits.agent_sessions.enabled

    def has_record(self, name: str) -> bool:
        """Whether an earlier owner began the next step of that name here."""
        visit = self._visits.get(name, 0) + 1
        return f"{self._prefix}{name}{f'@{visit}' if visit > 1 else ''}" in self._run.history.steps

    def has_end(self, name: str) -> bool:
        """Whether an earlier owner ended the next step of that name here, so that it is not executed again."""
        visit = self._visits.get(name, 0) + 1
        record = self._run.history.steps.get(f"{self._prefix}{name}{f'@{visit}' if visit > 1 else ''}")
        return record is not None and record.end is not None

    def recorded_result(self, step_id: str) -> JSON:
        """The result of a step anywhere in the run that an earlier owner finished; None when there is none."""
        record = self._run.history.steps.get(step_id)
        if record is None or record.end != "completed":
            return None
        properties: dict[str, JSON] = decode(record.body)  # type: ignore[assignment]
        return self._run.resolve(properties, "result")

    def steer_child(self, run_dir: str, text: str) -> bool:
        """Say something to the child run of that directory, as a person could; whether there was one to say it to."""
        store = self._run.engine.store
        for row in store.child_runs(self.run_id):
            if row.run_dir == run_dir and row.status not in SETTLED:
                store.request(row.no, "steer", encode({"text": text}).decode(), self._run.clock.now_ms())
                self._run.engine.others.look_again()
                return True
        return False

    def recorded_results(self, operation: str) -> Iterator[tuple[str, JSON]]:
        """Ids and results of the steps of that operation, anywhere in the run, that earlier owners ended, failed ones too."""
        for step_id, record in self._run.history.steps.items():
            if record.operation == operation and record.end is not None:
                properties: dict[str, JSON] = decode(record.body)  # type: ignore[assignment]
                yield step_id, self._run.resolve(properties, "result")

    def recorded_count(self, operation: str) -> int:
        """How many steps of that operation, anywhere in the run, earlier owners began."""
        return sum(1 for record in self._run.history.steps.values() if record.operation == operation)

    async def pause(self, reason: str) -> NoReturn:
        """Let the run pause: what is under way ends, nothing new begins, and this never returns."""
        if self._run.pausing is None:
            self._run.pausing = reason
        self._run.may_be_idle()
        while True:
            await waiting.for_ever(self._frame)


class OperationScope(Scope):
    """What an operation gets. See `context.OperationContext`."""

    __slots__ = ("attempt", "max_attempts", "step_id", "was_interrupted")

    def __init__(
        self, run: Run, frame: Frame, step_id: str, attempt: int, max_attempts: int, was_interrupted: bool
    ) -> None:
        super().__init__(run, frame, step_id if attempt == 1 else f"{step_id}/attempt-{attempt}")
        self.step_id = step_id
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.was_interrupted = was_interrupted

    def keep_text(self, path: str) -> JSON:
        return large.keep_file(path, self._run.blobs)

    def slot(self, backend: str, *, tags: Sequence[str] = (), remaining: int = 0) -> AbstractAsyncContextManager[None]:
        from perdure.kernel.capacity.holding import slot

        return slot(self, self._run, self._frame, backend, tags=tags, remaining=remaining)


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended the group, out of the nest of groups."""
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
