"""Writing sessions: events appended to one file, once each, however often the work is begun again.

Who works tells every event from the beginning each time; those that the file holds already are skipped, by their number. So an
event is appended only after the log of the run has it: then the file is never ahead of the log. Each append holds the session's
lock for that moment, so that two processes keep each other's events.

Saving never fails the work: the first thing that goes wrong is told once, and nothing is saved from then on. One thread uses a
writer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Self

import msgspec

from perdure.agents.sessions import events
from perdure.agents.sessions.delivery import Deliveries
from perdure.agents.sessions.events import Delivery, DeliveryState, Event, Review
from perdure.agents.sessions.files import (
    LOCK_WAIT_S,
    UnreadableSession,
    check_file,
    lock_of,
    make_folder,
    session_path,
    wait_for,
)
from perdure.agents.sessions.reader import Problem, check_begin, read_events
from perdure.base import failpoint
from perdure.base.clock import Clock, SystemClock, rfc3339
from perdure.base.errors import NotFound, PerdureError, Refused
from perdure.base.masking import Masker
from perdure.disk.atomic import explained
from perdure.disk.home import StateHome
from perdure.disk.jsonl import MAX_LINE, Appender
from perdure.disk.lock import Locked, PidLock
from perdure.llm.protocol import DeltaKind

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_KINDS = {"message": "m", "attempt": "a", "end": "e", "send": "s", "answer": "w"}


class SessionRemoved(PerdureError):
    """The file of a session was removed or replaced while it was written."""

    code = "session_removed"


class _Held(msgspec.Struct):
    """What a file holds already: by follow-up (0 is the work itself) the kinds of its events, a sign each; its header; and the
    blocks at its end that are only shown, of which the rest will never come."""

    kinds: dict[int, list[str]] = {}
    header: Review | None = None
    shown: dict[tuple[int, int, int], Delivery] = {}


class SessionWriter:
    """One session, open to append. `header` is that of the file, which is the given one only when the file was made."""

    def __init__(
        self,
        session_id: str,
        *,
        mask: Masker | None = None,
        warn: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        self.session_id = session_id
        self.header: Review | None = None
        self.send: int | None = None
        self.is_saving = False
        self._mask = mask
        self._warn = warn
        self._clock = clock or SystemClock()
        self._lock_wait_s = lock_wait_s
        self._path = ""
        self._lock = PidLock("")
        self._appender: Appender | None = None
        self._file: tuple[int, int] = (0, 0)
        self._holds_lock = False
        self._held: list[str] = []
        self._told = 0
        self._is_dirty = False
        self._deliveries = Deliveries(self._clock, mask, self._write_deliveries)

    @classmethod
    def open(
        cls,
        home: StateHome,
        header: Review,
        *,
        mask: Masker | None = None,
        warn: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> Self:
        """The session that the header names: made with it, or, when it is there, as it is with all its history.

        With `warn`, nothing raises: what goes wrong is told to it once, and the writer then saves nothing. Without, `Locked`,
        `UnreadableSession`, `UnsafePath`, `EnvironmentFault` and `BadName` are raised, here and by `append`.
        """
        writer = cls(header.session_id, mask=mask, warn=warn, clock=clock, lock_wait_s=lock_wait_s)
        try:
            make_folder(home)
            writer._open(session_path(home, header.session_id), header)
        except (PerdureError, OSError) as error:
            writer._fail(error)
        return writer

    @classmethod
    def follow_up(
        cls,
        home: StateHome,
        session_id: str,
        *,
        send: int | None = None,
        mask: Masker | None = None,
        clock: Clock | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> Self:
        """The session of that id for one more follow-up, alone until `close`: every event gets the follow-up's number, `send`. One that
        was begun before goes on: what it holds of it already is not added again.

        Raises `NotFound` and what `open` raises."""
        writer = cls(session_id, mask=mask, clock=clock, lock_wait_s=lock_wait_s)
        path = session_path(home, session_id)
        if not os.path.lexists(path):
            raise NotFound(f"There is no session {session_id} here.", hint="`perdure session list` lists them.")
        make_folder(home)
        lock = lock_of(path)
        wait_for(lock, session_id, lock_wait_s)
        try:
            held = writer._open_held(path, None)
        except BaseException:
            lock.release()
            raise
        writer._lock, writer._holds_lock = lock, True
        writer.send = send or max(held.kinds, default=0) + 1
        writer._held = held.kinds.get(writer.send, [])
        return writer

    def append(self, event: Event) -> bool:
        """Add the next event, unless the file holds it already; whether it was added. Its time is now unless it has one.

        The header is there since `open`, so a `Review` is never added; what is only shown goes through `deliver`."""
        if not self.is_saving or isinstance(event, (Review, Delivery)):
            return False
        number, kind = self._told, _KINDS[str(event.__struct_config__.tag)]
        self._told += 1
        if number < len(self._held):
            if self._held[number] != kind:
                path = self._path
                self._fail(UnreadableSession(path, f"its event {number + 1} is another than the run recorded"))
            return False
        try:
            line = self._line(event)
            waiting = b"".join(self._line(each) for each in self._deliveries.take())
            self._write(waiting + line)
        except (PerdureError, OSError) as error:
            self._fail(error)
            return False
        return True

    def deliver(
        self,
        turn: int,
        attempt: int,
        block: int,
        content_kind: DeltaKind,
        text: str,
        *,
        state: DeliveryState = "delta",
    ) -> None:
        """Text as it comes, for those who look on. Written at most about ten times a second, never waiting for the lock, and
        left out rather than kept when too much of it waits. `complete` and `interrupted` end a block."""
        if self.is_saving:
            self._deliveries.add(turn, attempt, block, content_kind, text, state)

    def close(self) -> None:
        """Write what waits, let the disk have it, let go. Once; more often does nothing."""
        appender, self._appender = self._appender, None
        if appender is None:
            return
        try:
            rest = self._deliveries.take()
            if self.is_saving and rest:
                self._appender = appender
                self._write_deliveries(rest)
                self._appender = None
            if self.is_saving and self._is_dirty:
                appender.sync()
        except (PerdureError, OSError) as error:
            self._fail(error)
        finally:
            self.is_saving = False
            appender.close()
            if self._holds_lock:
                self._holds_lock = False
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _open(self, path: str, header: Review) -> None:
        lock = lock_of(path)
        wait_for(lock, self.session_id, self._lock_wait_s)
        try:
            self._held = self._open_held(path, header).kinds.get(0, [])
        finally:
            lock.release()

    def _open_held(self, path: str, header: Review | None) -> _Held:
        """Open the file under its lock; made with the header when it is not there, or holds nothing whole."""
        self._path = path
        self._lock = lock_of(path)
        held = _Held()
        try:
            check_file(path)
            held = _scan(path)
        except FileNotFoundError:
            _make(path)
        if held.header is None and header is None:
            raise UnreadableSession(path, "it holds no event")
        appender = Appender(path, label="sessions.append", is_shared=True)
        try:
            status = os.lstat(path)
            self._file = (status.st_dev, status.st_ino)
            rest = [
                msgspec.structs.replace(each, text="", state="interrupted", at=None) for each in held.shown.values()
            ]
            begin: list[Event] = [header] if held.header is None and header is not None else [*rest]
            if begin:
                appender.append(b"".join(self._line(each) for each in begin))
                self._is_dirty = True
        except BaseException:
            appender.close()
            raise
        self.header = held.header or header
        self._appender, self.is_saving = appender, True
        return held

    def _line(self, event: Event) -> bytes:
        if event.at is None:
            event = msgspec.structs.replace(event, at=rfc3339(self._clock.now_ms()))
        if self.send is not None:
            event = msgspec.structs.replace(event, send=self.send)
        line = events.encode_event(event)
        if self._mask is not None and not isinstance(event, Delivery):
            line = self._mask.mask(line)
        if len(line) >= MAX_LINE:
            raise Refused(f"An event of {len(line)} bytes is longer than a session's line may be.")
        return line + b"\n"

    def _write(self, lines: bytes) -> None:
        """Append under the lock, which `follow_up` holds already."""
        assert self._appender is not None
        if self._holds_lock:
            self._append(self._appender, lines)
            return
        wait_for(self._lock, self.session_id, self._lock_wait_s)
        try:
            self._append(self._appender, lines)
        finally:
            self._lock.release()

    def _append(self, appender: Appender, lines: bytes) -> None:
        self._check_place()
        appender.append(lines)
        self._is_dirty = True

    def _write_deliveries(self, found: list[Delivery]) -> bool:
        """Append what is for display, at once or not now; whether it was."""
        if not self.is_saving or self._appender is None:
            return True
        try:
            lines = b"".join(self._line(each) for each in found)
            if self._holds_lock:
                self._append(self._appender, lines)
                return True
            try:
                self._lock.acquire()
            except Locked:
                return False
            try:
                self._append(self._appender, lines)
            finally:
                self._lock.release()
        except (PerdureError, OSError) as error:
            if self._warn is not None:  # else the next event tells
                self._fail(error)
        return True

    def _check_place(self) -> None:
        """The file that is open is the one that others find."""
        try:
            status = os.lstat(self._path)
        except OSError as error:
            raise SessionRemoved(f"{self._path} was removed while it was written.") from error
        if (status.st_dev, status.st_ino) != self._file:
            raise SessionRemoved(f"{self._path} was replaced while it was written.")

    def _fail(self, error: PerdureError | OSError) -> None:
        """Told once; without anybody to tell it is raised."""
        self.is_saving = False
        if isinstance(error, OSError):
            error = explained(error, self._path or self.session_id)
        if self._warn is None:
            raise error
        self._warn(f"Cannot save agent session {self.session_id}: {error}; the work goes on without saving it.")


def _make(path: str) -> None:
    """A new file, which nobody else made."""
    try:
        failpoint.before_write("sessions.create")
        os.close(os.open(path, _NEW, 0o600))
    except OSError as error:
        raise explained(error, path) from error
    failpoint.after_write("sessions.create")


def _scan(path: str) -> _Held:
    """What the file holds. Raises `UnreadableSession` at the first line that is whole and no event."""
    held = _Held()
    offset = 0
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
            event = _quickly(line) if held.header is not None else None
            if event is not None:
                _count(held, event)
            else:
                _count_read(held, path, offset, number)
            offset += len(line)
    return held


def _quickly(line: bytes) -> Event | None:
    """The event on a line; None when it must be looked at with care."""
    try:
        return events.decode_event(line)
    except (ValueError, RecursionError):  # of JSON, of UTF-8, of what a field may be
        return None


def _count(held: _Held, event: Event) -> None:
    kind = _KINDS.get(str(event.__struct_config__.tag))
    if kind is not None:
        held.kinds.setdefault(event.send or 0, []).append(kind)
        held.shown.clear()
    elif isinstance(event, Delivery):
        place = (event.turn, event.attempt, event.block)
        if event.state == "interrupted":
            held.shown.pop(place, None)
        else:
            held.shown[place] = event


def _count_read(held: _Held, path: str, offset: int, number: int) -> None:
    """Count what stands on one line, having read it."""
    for each in read_events(path, offset, line=number):
        if each.line != number:
            break
        if isinstance(each, Problem):
            if not each.is_torn:
                raise UnreadableSession(path, each.reason, number)
        elif held.header is None:
            check_begin(path, each)
            assert isinstance(each.event, Review)
            held.header = each.event
        else:
            _count(held, each.event)
