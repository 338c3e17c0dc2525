"""What the store keeps, row by row."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from perdure.base.errors import OwnedElsewhere, Refused


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """One run as the store knows it. Times are epoch milliseconds; `owner` and `record` are JSON texts."""

    no: int
    run_id: str
    name: str
    kind: str
    status: str
    created_at: int
    started_at: int | None
    settled_at: int | None
    run_dir: str
    owner: str | None
    epoch: int
    record: str
    parent: str | None = None


class NewRun(msgspec.Struct, frozen=True):
    """A run to be made. With an `owner` it is claimed in the same commit."""

    run_id: str
    name: str
    kind: str
    status: str
    created_at: int
    run_dir: str
    record: str
    owner: str | None = None
    started_at: int | None = None
    parent: str | None = None


class Claim(msgspec.Struct, frozen=True):
    """The right to write a run's log, until somebody claims it anew."""

    no: int
    run_id: str
    epoch: int


class EventRow(msgspec.Struct, frozen=True, array_like=True):
    """One event of a log: `id` 16 bytes, `ts` epoch milliseconds, `body` JSON."""

    seq: int
    id: bytes
    ts: int
    event: str
    step: str | None
    body: bytes


class QuestionRow(msgspec.Struct, frozen=True):
    """An open or answered question; `question` and `answer` are JSON texts."""

    question_id: str
    run_id: str
    step: str
    asked_at: int
    question: str
    answer: str | None


class RequestRow(msgspec.Struct, frozen=True):
    """Something asked of the owner of a run: `cancel`, `pause`, `steer`."""

    id: int
    kind: str
    body: str


class Settlement(msgspec.Struct, frozen=True):
    """The end of a run: its last status, when, and the record to show."""

    status: str
    at: int
    record: str


class Change(msgspec.Struct, frozen=True):
    """What goes into one commit along with events."""

    status: str | None = None
    at: int | None = None
    settled: Settlement | None = None
    open_questions: tuple[tuple[str, str, int, str], ...] = ()
    close_questions: tuple[str, ...] = ()
    taken_requests: tuple[int, ...] = ()
    release: bool = False


class Addition(NamedTuple):
    """What one owner adds to one log."""

    claim: Claim
    events: Sequence[EventRow]
    change: Change | None


class SlotRequest(NamedTuple):
    """A wish to start an agent: on which backend, for which step of which run, with which mutex tags (between spaces), and how
    long the way is that still follows. `owner` is the process's identity as JSON text, `asked_at` epoch milliseconds."""

    backend: str
    owner: str
    run_id: str
    step: str
    tags: str
    remaining: int
    asked_at: int


class SlotRow(NamedTuple):
    """One who works (`taken_at` is set) or waits, with the place in the line."""

    id: int
    backend: str
    owner: str
    run_id: str
    step: str
    tags: str
    remaining: int
    place: int
    asked_at: int
    taken_at: int | None


class SlotChange(NamedTuple):
    """What is to be done with rows of slots: those of `dropped` go, those of `taken` (id, time) wait no more, and others get the
    places that became free (id, place). `asked` is the id of the row that was asked for, if there was one."""

    dropped: Sequence[int] = ()
    taken: Sequence[tuple[int, int]] = ()
    places: Sequence[tuple[int, int]] = ()
    asked: int | None = None


class ClaimLost(OwnedElsewhere):
    """The run was taken over by another process: this one must not write its log any more."""

    code = "claim_lost"


class StateRefused(Refused):
    """The state file cannot be used by this version; it was left as it is."""

    code = "state_refused"


class RunExists(Refused):
    """A run of that id is there already."""

    code = "run_exists"
