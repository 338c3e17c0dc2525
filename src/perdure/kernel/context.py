"""What an interpreter and an operation may do, and all they may do.

Both get a context that stands at a place of the run's tree of steps. A step's id is its scope path plus the visit number of
its name in that scope: `implement`, `implement@2`, `review/lint`, `implement@2/attempt-2/turn-3`. Visit 1 is not written.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from perdure.base.jsonvalue import JSON
from perdure.kernel.definition import Definition
from perdure.kernel.outcome import Outcome
from perdure.kernel.question import Answer, Question
from perdure.kernel.retry import NO_RETRY, Retry

T = TypeVar("T")
OnInterrupt = Literal["rerun", "ask", "fail"]


class RunContext(Protocol):
    """The seam between interpreters and the engine.

    `run_id`, `run_dir` (absolute text) and `input` are the run's, `start` the properties of its `run.started`; `path` is
    this scope's id, "" at the root. `local` is
    where an interpreter leaves what its operations need in this process (a compiled graph, an open worktree): it is
    never recorded, and each interpretation sets it anew.
    """

    local: Any

    @property
    def run_id(self) -> str: ...

    @property
    def run_dir(self) -> str: ...

    @property
    def input(self) -> JSON: ...

    @property
    def path(self) -> str: ...

    @property
    def start(self) -> dict[str, JSON]: ...

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
        """The recorded result of the step, executed only if no result is recorded.

        `properties` join those of `step.started` and of the step's end (`node_id`, `index`, ...). Raises `StepFailed`
        when the last attempt failed, `ReplayDiverged` when the record is of another step.
        """

    async def ask(self, name: str, question: Question) -> Answer:
        """The answer of a person, or what the time limit made of it. Parks the run while it waits."""

    async def sleep(self, name: str, duration_ms: int) -> None:
        """Wait so long, counted from the first time this was reached."""

    async def child(
        self,
        name: str,
        definition: Definition,
        input: Any = None,
        *,
        run_dir: str | None = None,
        is_unwanted: Callable[[], bool] = ...,
    ) -> Outcome:
        """The outcome of a run of its own, started once and resumed with its parent.

        When this call is cancelled, `is_unwanted` says whether the child is cancelled too instead of being left to resume."""

    def scope(self, name: str) -> "RunContext":
        """A nested place: names in it count their own visits."""

    async def gather(self, branches: Sequence[Callable[[], Awaitable[T]]], limit: int | None = None) -> list[T]:
        """The results of all branches, in their order, at most `limit` at once. Each branch uses a scope of its own.

        The first exception cancels the others and is raised."""

    def emit(self, event: str, properties: dict[str, Any] | None = None, *, again: bool = False) -> None:
        """Add history that is not a step, with the next commit.

        The n-th `emit` of a name in a scope is written once in the life of the run, so an interpreter may emit at every
        replay. With `again=True` it is always written: facts of this very attempt (`command.started`)."""

    async def flush(self) -> None:
        """Return when all that was emitted is durable."""

    def recorded(self, event: str) -> list[dict[str, JSON]]:
        """The properties of the events of that name that earlier owners wrote in this scope, oldest first."""

    @property
    def idle_ms(self) -> float:
        """How long ago the run last recorded an event; 0 while it waits for something outside itself."""

    @property
    def mask(self) -> Any:
        """What takes secrets out of text, or None when there are none."""

    def resolve(self, value: JSON) -> JSON:
        """A recorded value, read from its blob when it lies in one."""

    @property
    def has_steering(self) -> bool:
        """Whether people said something to the run that no step has taken yet."""

    def take_steering(self) -> list[str]:
        """What people said to the run since this was last asked; first what an owner who died had taken here."""

    @property
    def is_attended(self) -> bool:
        """Whether somebody who can answer a question is there now."""

    @property
    def state_root(self) -> str:
        """The folder of the state home that the run belongs to, "" when it has none."""

    @property
    def state_id(self) -> str:
        """The id of the state that the run is recorded in."""

    @property
    def keeps_conversations(self) -> bool:
        """Whether this machine's limits let conversations of agents be saved beside the log."""

    def has_record(self, name: str) -> bool:
        """Whether an earlier owner began the next step of that name here."""

    def has_end(self, name: str) -> bool:
        """Whether an earlier owner ended the next step of that name here, so that it is not executed again."""

    def recorded_result(self, step_id: str) -> JSON:
        """The result of a step anywhere in the run that an earlier owner finished; None when there is none."""

    def steer_child(self, run_dir: str, text: str) -> bool:
        """Say something to the child run of that directory, as a person could; whether there was one to say it to."""

    def recorded_results(self, operation: str) -> Iterator[tuple[str, JSON]]:
        """Ids and results of the steps of that operation, anywhere in the run, that earlier owners ended, failed ones too."""

    def recorded_count(self, operation: str) -> int:
        """How many steps of that operation, anywhere in the run, earlier owners began."""

    async def pause(self, reason: str) -> NoReturn:
        """Let the run pause: what is under way ends, nothing new begins, and this never returns."""

    async def now_ms(self) -> int:
        """The time, recorded: the same at every replay."""

    async def random(self) -> float:
        """A number from 0 to 1, recorded: the same at every replay."""


class OperationContext(RunContext, Protocol):
    """What an operation gets: a scope under its own step, and what it may know of this attempt.

    `step_id` is the step's id and `path` the place for steps inside it. `was_interrupted` says that an earlier owner died
    in this very attempt.
    """

    step_id: str
    attempt: int
    max_attempts: int
    was_interrupted: bool

    def keep_text(self, path: str) -> JSON:
        """A finished file as a value for the log: its text when small, else a reference to a blob made of it."""

    def slot(self, backend: str, *, tags: Sequence[str] = (), remaining: int = 0) -> AbstractAsyncContextManager[None]:
        """`async with op.slot("codex"):` the right to have one agent at work on the backend, and to use what the mutex tags name, on
        this machine. It waits while others have it, holding nothing, and says so by events; time limits begin inside.

        `remaining` is how long the way is that still follows: of those of one run that wait, the longest is served first. Without a
        limit and without tags it costs nothing. Inside a slot of the same backend it takes no second one, as the outer agent waits for
        the inner. Raises `BadTag`."""
