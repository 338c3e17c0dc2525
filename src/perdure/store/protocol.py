"""The seam to where runs are kept. Each method is one transaction; none spans an `await` or a subprocess."""

from collections.abc import Callable, Sequence
from typing import Protocol

from perdure.store.records import (
    Addition,
    Change,
    Claim,
    ClaimLost,
    EventRow,
    NewRun,
    QuestionRow,
    RequestRow,
    RunRow,
    SlotChange,
    SlotRequest,
    SlotRow,
)


class SlotTable(Protocol):
    """Which agents are at work on this machine, and which wait."""

    def change(
        self,
        decide: Callable[[Sequence[SlotRow]], SlotChange],
        *,
        ask: SlotRequest | None = None,
        free: Sequence[int] = (),
    ) -> SlotChange:
        """In one transaction: let go of the rows `free`, let `ask` stand at the end of the line, and do what `decide` makes of
        all rows then. All or nothing. It survives a kill; a power loss may undo it, as no owner outlives one."""

    def rows(self) -> list[SlotRow]:
        """All rows, oldest first; none in a state that is older than slots."""


class Store(Protocol):
    """Tables of runs, events, questions, requests and slots.

    Writers wait at most 5 s for each other. What was committed survives a kill, and with durability `full` a power loss.
    """

    @property
    def slots(self) -> SlotTable:
        """Who works and who waits on this machine."""

    def insert_run(self, run: NewRun, events: Sequence[EventRow]) -> Claim:
        """A new run with its first events, claimed when `run.owner` is given. Raises `RunExists`."""

    def claim(self, run_id: str, owner: str, may_take: Callable[[RunRow], None]) -> Claim:
        """Own the run. `may_take` sees the row under the write lock and raises to refuse. Raises `NotFound`."""

    def append(self, claim: Claim, events: Sequence[EventRow], change: Change | None = None) -> None:
        """Add events to the log, and what belongs with them. All or nothing. Raises `ClaimLost`."""

    def append_all(self, additions: Sequence[Addition]) -> list[ClaimLost | None]:
        """Add to several logs in one commit. Each is taken whole or, when its claim was lost, refused alone."""

    def release(self, claim: Claim) -> None:
        """Own it no more; nothing happens when somebody else does by now."""

    def find_run(self, run_id: str) -> RunRow | None:
        """The run of that whole id."""

    def find_runs(self, prefix: str) -> list[RunRow]:
        """Runs whose id begins so, newest first."""

    def list_runs(self, *, open_only: bool = False) -> list[RunRow]:
        """Runs, newest first."""

    def child_runs(self, run_id: str) -> list[RunRow]:
        """The runs that a run started, oldest first."""

    def read_events(self, run_no: int, after: int = 0) -> list[EventRow]:
        """The log of a run after a number, in order."""

    def last_event(self, run_no: int) -> EventRow | None:
        """The newest event of a run."""

    def open_questions(self, run_no: int | None = None) -> list[QuestionRow]:
        """Questions that nobody has taken an answer to, of one run or of all, oldest first."""

    def find_question(self, question_id: str) -> QuestionRow | None:
        """One question, open or not."""

    def answer(self, question_id: str, answer: str, at: int) -> bool:
        """Record the answer. False when there is one already, or nobody waits any more: the first answer counts."""

    def request(self, run_no: int, kind: str, body: str, at: int) -> None:
        """Ask something of the run's owner."""

    def open_requests(self, run_no: int) -> list[RequestRow]:
        """What was asked and not taken yet, oldest first."""

    def change_marker(self) -> int:
        """A number that differs after another process has written; cheap enough to ask ten times a second."""

    def set_run_dir(self, run_no: int, run_dir: str) -> None:
        """Remember that a run directory was moved."""

    def delete_run(self, run_no: int) -> None:
        """Forget the run. Only a person's word leads here."""

    def state_id(self) -> str:
        """The UUID of this state."""

    def close(self) -> None:
        """Let go of the file."""
