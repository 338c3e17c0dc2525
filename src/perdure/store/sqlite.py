"""The store in one SQLite file. See `protocol.Store` for what each method promises."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import apsw

from perdure.base import failpoint
from perdure.base.errors import EnvironmentFault, NotFound
from perdure.store import opening
from perdure.store.queries import SQL
from perdure.store.records import (
    Addition,
    Change,
    Claim,
    ClaimLost,
    EventRow,
    NewRun,
    QuestionRow,
    RequestRow,
    RunExists,
    RunRow,
    StateRefused,
)
from perdure.store.slots import SqliteSlots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

_AGE = attrgetter("created_at", "no")
_INSERT_EVENT = SQL["insert_event"]
_EPOCH_OF = SQL["epoch_of"]


class SqliteStore:
    """Runs and events in `state.sqlite`. Used from one thread."""

    def __init__(self, db: apsw.Connection, path: str) -> None:
        self._db = db
        self._path = path
        self._execute = db.execute
        self.slots = SqliteSlots(db, self._transaction, self._explain)

    @classmethod
    def open(cls, path: str, *, durability: str = "full") -> SqliteStore:
        """The state at this path, made when it is not there. `durability` is `full` (a commit survives power loss) or
        `normal` (a commit survives a kill)."""
        return cls(opening.open_database(path, durability=durability), path)

    @classmethod
    def open_read_only(cls, path: str) -> SqliteStore | None:
        """The state at this path without any right to change it; None when there is none."""
        db = opening.open_read_only(path)
        return None if db is None else cls(db, path)

    def close(self) -> None:
        self._db.close()

    # Writing

    def insert_run(self, run: NewRun, events: Sequence[EventRow]) -> Claim:
        epoch = 1 if run.owner else 0
        values = (
            run.run_id,
            run.name,
            run.kind,
            run.status,
            run.created_at,
            run.started_at,
            run.run_dir,
            run.owner,
            epoch,
            run.record,
            run.parent,
        )
        with self._transaction("store.insert_run"):
            try:
                self._execute(SQL["insert_run"], values)
            except apsw.ConstraintError as error:
                raise RunExists(f"There is a run {run.run_id} already.") from error
            no = self._db.last_insert_rowid()
            self._insert_events(no, events)
        return Claim(no, run.run_id, epoch)

    def claim(self, run_id: str, owner: str, may_take: Callable[[RunRow], None]) -> Claim:
        with self._transaction("store.claim"):
            row = self.find_run(run_id)
            if row is None:
                raise NotFound(f"There is no run {run_id}.", hint="`perdure ps -a` lists all runs.")
            may_take(row)
            epoch = self._execute(SQL["set_owner"], (owner, row.no)).get
        return Claim(row.no, run_id, epoch)

    def append(self, claim: Claim, events: Sequence[EventRow], change: Change | None = None) -> None:
        [refused] = self.append_all([Addition(claim, events, change)])
        if refused is not None:
            raise refused

    def append_all(self, additions: Sequence[Addition]) -> list[ClaimLost | None]:
        failpoint.before_write("store.append")
        execute = self._execute
        refused: list[ClaimLost | None] = []
        try:
            execute("begin immediate")
            try:
                for claim, events, change in additions:
                    if execute(_EPOCH_OF, (claim.no,)).get != claim.epoch:
                        refused.append(_claim_lost(claim))
                        continue
                    refused.append(None)
                    self._insert_events(claim.no, events)
                    if change is not None:
                        self._apply(claim, change)
                execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    execute("rollback")
                raise
        except apsw.Error as error:
            raise self._explain(error) from error
        failpoint.after_write("store.append")
        return refused

    def release(self, claim: Claim) -> None:
        with self._transaction("store.release"):
            self._execute(SQL["clear_owner"], (claim.no, claim.epoch))

    def answer(self, question_id: str, answer: str, at: int) -> bool:
        with self._transaction("store.answer"):
            self._execute(SQL["answer_question"], (answer, at, question_id))
            return self._db.changes() == 1

    def request(self, run_no: int, kind: str, body: str, at: int) -> None:
        with self._transaction("store.request"):
            self._execute(SQL["insert_request"], (run_no, kind, body, at))

    def set_run_dir(self, run_no: int, run_dir: str) -> None:
        with self._transaction("store.set_run_dir"):
            self._execute(SQL["set_run_dir"], (run_dir, run_no))

    def delete_run(self, run_no: int) -> None:
        with self._transaction("store.delete_run"):
            for name in ("delete_events", "delete_questions", "delete_requests", "delete_run"):
                self._execute(SQL[name], (run_no,))

    def _insert_events(self, no: int, events: Sequence[EventRow]) -> None:
        base = no << 32
        for row in events:
            self._execute(_INSERT_EVENT, (base + row.seq, row.id, row.ts, row.event, row.step, row.body))

    def _apply(self, claim: Claim, change: Change) -> None:
        no = claim.no
        if change.settled is not None:
            end = change.settled
            self._execute(SQL["settle_run"], (end.status, end.at, end.record, no))
            self._execute(SQL["close_questions_of"], (no,))
        elif change.status is not None:
            self._execute(SQL["set_status"], (change.status, change.at, no))
        for question_id, step, at, question in change.open_questions:
            self._execute(SQL["open_question"], (question_id, no, step, at, question))
        for question_id in change.close_questions:
            self._execute(SQL["close_question"], (question_id,))
        for request_id in change.taken_requests:
            self._execute(SQL["take_request"], (change.at, request_id))
        if change.release:
            self._execute(SQL["clear_owner"], (no, claim.epoch))

    # Reading

    def find_run(self, run_id: str) -> RunRow | None:
        row = self._first(SQL["run_by_id"], (run_id,))
        return None if row is None else RunRow(*row)

    def find_runs(self, prefix: str) -> list[RunRow]:
        return [RunRow(*row) for row in self._all(SQL["runs_by_prefix"], (prefix,))]

    def list_runs(self, *, open_only: bool = False) -> list[RunRow]:
        rows = [RunRow(*row) for row in self._all(SQL["open_runs" if open_only else "all_runs"], ())]
        rows.sort(key=_AGE, reverse=True)
        return rows

    def child_runs(self, run_id: str) -> list[RunRow]:
        return [RunRow(*row) for row in self._all(SQL["child_runs"], (run_id,))]

    def read_events(self, run_no: int, after: int = 0) -> list[EventRow]:
        return [EventRow(*row) for row in self._all(SQL["events_of"], (run_no, after))]

    def last_event(self, run_no: int) -> EventRow | None:
        row = self._first(SQL["last_event"], (run_no,))
        return None if row is None else EventRow(*row)

    def open_questions(self, run_no: int | None = None) -> list[QuestionRow]:
        if run_no is None:
            return [QuestionRow(*row) for row in self._all(SQL["all_open_questions"], ())]
        return [QuestionRow(*row) for row in self._all(SQL["questions_of"], (run_no,))]

    def find_question(self, question_id: str) -> QuestionRow | None:
        row = self._first(SQL["question_by_id"], (question_id,))
        return None if row is None else QuestionRow(*row)

    def open_requests(self, run_no: int) -> list[RequestRow]:
        return [RequestRow(*row) for row in self._all(SQL["open_requests"], (run_no,))]

    def change_marker(self) -> int:
        marker: int = self._execute("pragma data_version").get
        return marker

    def state_id(self) -> str:
        row = self._first(SQL["get_meta"], ("state_id",))
        return str(row[0]) if row else ""

    def _all(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._execute(statement, values).fetchall()
        except apsw.Error as error:
            raise self._explain(error) from error

    def _first(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        rows = self._all(statement, values)
        return rows[0] if rows else None

    # Transactions and errors

    def _transaction(self, label: str) -> AbstractContextManager[None]:
        return _Transaction(self._db, label, self._explain)

    def _explain(self, error: apsw.Error) -> Exception:
        return explain(error, self._path)


def _claim_lost(claim: Claim) -> ClaimLost:
    return ClaimLost(
        f"Run {claim.run_id} was taken over by another process; nothing more is written here.",
        hint=f"`perdure show {claim.run_id}` says by whom.",
    )


class _Transaction:
    """A write transaction that waits for other writers, at most the busy time."""

    __slots__ = ("_db", "_explain", "_label")

    def __init__(self, db: apsw.Connection, label: str, explain: Callable[[apsw.Error], Exception]) -> None:
        self._db = db
        self._label = label
        self._explain = explain

    def __enter__(self) -> None:
        failpoint.before_write(self._label)
        try:
            self._db.execute("begin immediate")
        except apsw.Error as error:
            raise self._explain(error) from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None:
            try:
                self._db.execute("commit")
            except apsw.Error as failure:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise self._explain(failure) from failure
            failpoint.after_write(self._label)
            return
        if self._db.in_transaction:
            self._db.execute("rollback")
        if isinstance(error, apsw.Error):
            raise self._explain(error) from error


class StateFull(EnvironmentFault):
    """The disk is full: what was committed before is whole, this commit is not."""

    code = "disk_full"


def explain(error: apsw.Error, path: str) -> Exception:
    """What SQLite says as an error that names the file and the way out; an error of this program stays itself."""
    if isinstance(error, apsw.FullError):
        return StateFull(f"The disk is full: {path} cannot grow.", hint="Free some space, then resume.")
    if isinstance(error, apsw.BusyError):
        seconds = opening.BUSY_MS // 1000
        return EnvironmentFault(f"{path} was busy for {seconds} s.", hint="Another process holds it; try again.")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return StateRefused(
            f"{path} is damaged: {error}. It was left as it is.",
            hint="Move it away, then `perdure rebuild --store` makes it again from the run directories.",
        )
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, apsw.PermissionsError)):
        return EnvironmentFault(f"{path} cannot be written: {error}.", hint="Check its owner, its mode and its disk.")
    return error
