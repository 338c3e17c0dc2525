"""The run directory: the log of a run as files that a person can open.

Files are written first and the event's line in `progress.jsonl` last, so the last line there says up to which event the other
files are written. After a kill, `catch_up` folds silently up to it and does the rest; when that line is not of this log (the
machine lost power, or the file is damaged), all is made anew.

Events that follow each other within a few milliseconds are written together; `live.json` and `cli.log` follow at most every
100 ms. Nothing is put off longer than the engine's next look at its runs (100 ms), or than a wait or the end of the run. A new
directory is filled under another name and then renamed: it is there with its first files, or not at all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.base import failpoint
from perdure.base.clock import Clock, SystemClock
from perdure.base.errors import Refused
from perdure.base.ids import uuid_text
from perdure.base.jsonvalue import decode
from perdure.disk import jsonl, process
from perdure.disk.atomic import explained, private_folder
from perdure.kernel.lifecycle import SETTLED
from perdure.views.cli_log import log_line
from perdure.views.files import Files
from perdure.views.progress import last_written, last_written_seq
from perdure.views.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.disk.blobs import Blobs
    from perdure.kernel.events import Event

__all__ = ["RunDirectory", "RunDirectoryTaken", "hidden_path", "last_written_seq", "remove_unfinished"]

TOGETHER_MS = 10
LIVE_EVERY_MS = 100


class RunDirectoryTaken(Refused):
    """The directory holds another run's log."""

    code = "run_directory_taken"


class RunDirectory:
    """The subscriber that keeps one run directory level with the log."""

    def __init__(self, run_dir: str, blobs: Blobs, *, durable: bool = False, clock: Clock | None = None) -> None:
        self.run_dir = run_dir
        self.files = Files(run_dir, blobs)
        self.projection = Projection(self.files)
        self._durable = durable
        self._clock = clock or SystemClock()
        self._progress: jsonl.Appender | None = None
        self._backlog: list[Event] = []
        self._is_new = not os.path.exists(run_dir)
        self._is_level = self._is_new
        self._latest: Event | None = None
        self._written_at = 0.0
        self._live_at = -1e9
        self._live_due = False
        self._unlogged: list[Event] = []

    # What the engine calls

    def catch_up(self, events: Sequence[Event]) -> None:
        if not events:
            return
        remove_unfinished(self.run_dir)
        self._is_new = not os.path.exists(self.run_dir)
        self.projection = Projection(self.files)
        written = 0 if self._is_new else self._level(events)
        self._is_level = True
        known = [event for event in events if event.seq <= written]
        self.files.enabled = False
        for event in known:
            self._apply(event)
        self.files.enabled = True
        if known:
            self._mend_cli_log(known)
        self._backlog = [event for event in events if event.seq > written]
        self.flush()

    def committed(self, events: Sequence[Event]) -> None:
        if not self._backlog:
            self._backlog = list(events)
        else:
            self._backlog += events
        if not self._is_new:
            now = self._clock.monotonic_ms()
            if now - self._written_at >= TOGETHER_MS:
                self._write(now)

    def flush(self) -> None:
        now = self._clock.monotonic_ms()
        if self._backlog:
            self._write(now)
        if self._live_due:
            self._write_live(now)
        if self.projection.status != "running":
            # A run that waits, or has ended, keeps no file open.
            self.close()

    def close(self) -> None:
        """Let go of the open file; the next event opens it again."""
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    # Writing

    def _write(self, now: float) -> None:
        """Bring the files level with what was committed."""
        events, self._backlog = self._backlog, []
        self._written_at = now
        if self._is_new:
            self._make(events, now)
            return
        if not self._is_level:
            # The directory was there before its run: it may be another run's.
            self._join(events)
            return
        self._write_events(events)
        if now - self._live_at >= LIVE_EVERY_MS:
            self._write_live(now)
        if self._durable and self._progress is not None and self.projection.status in SETTLED:
            self._progress.sync()

    def _make(self, events: list[Event], now: float) -> None:
        """Fill the directory under another name, then show it."""
        hidden = hidden_path(self.run_dir, "new")
        private_folder(hidden)
        self.files.run_dir, self.files.hidden = hidden, True
        self._write_events(events)
        self._write_live(now)
        if self._durable and self._progress is not None and self.projection.status in SETTLED:
            self._progress.sync()
        try:
            failpoint.before_write("views.directory")
            os.rename(hidden, self.run_dir)
        except OSError as error:
            if not os.path.isdir(self.run_dir):
                raise explained(error, self.run_dir) from error
            self._join(events)
            return
        failpoint.after_write("views.directory")
        self.files.show(self.run_dir)
        self._is_new = False

    def _join(self, events: list[Event]) -> None:
        """Somebody else made the directory: what is not in there yet goes in there. `events` begin with the run."""
        self.close()
        self.files.show(self.run_dir)
        self._live_due = False
        self._unlogged.clear()
        self.catch_up(events)

    def _write_events(self, events: Sequence[Event]) -> None:
        for event in events:
            self._apply(event)
        self.projection.write_checkpoint()
        if self._progress is None:
            private_folder(self.files.run_dir)
            self._progress = jsonl.Appender(f"{self.files.run_dir}/progress.jsonl", label="views.progress")
        self._progress.append(b"".join([event.line() for event in events]))

    def _apply(self, event: Event) -> None:
        self._latest = event
        self._live_due = True
        self.projection.apply(event)
        if self.files.enabled:
            self._unlogged.append(event)

    def _write_live(self, now: float) -> None:
        self._live_at = now
        self._live_due = False
        if self._latest is not None:
            envelope = decode(self._latest.line())
            assert isinstance(envelope, dict)
            self.files.write_json("live.json", {"status": self.projection.status} | envelope)
        lines = _log_lines(self._unlogged)
        self._unlogged.clear()
        if lines:
            self.files.append("cli.log", lines)

    # Catching up

    def _level(self, events: Sequence[Event]) -> int:
        """Up to which event the files are written; they are made anew when nothing proves it."""
        found = last_written(f"{self.run_dir}/progress.jsonl")
        if found is not None and found.run_id != events[0].run_id:
            raise RunDirectoryTaken(
                f"{self.run_dir} holds run {found.run_id}, not run {events[0].run_id}.",
                hint="Move it away; the files are made again from the log.",
            )
        if found is not None and not _restarted(events):
            same = next((event for event in events if event.seq == found.seq), None)
            if same is not None and uuid_text(same.id) == found.event_id:
                return found.seq
        from perdure.views.rebuild import rebuild_run_directory

        rebuild_run_directory(self.run_dir, events, self.files.blobs)
        return events[-1].seq

    def _mend_cli_log(self, events: Sequence[Event]) -> None:
        """`cli.log` follows `progress.jsonl` a little later, so a kill may have cost its end."""
        wanted = _log_lines(events)
        there = self.files.read("cli.log") or b""
        if there == wanted:
            return
        if there and wanted.startswith(there):
            self.files.append("cli.log", wanted[len(there) :])
        else:
            self.files.write("cli.log", wanted)


def hidden_path(run_dir: str, kind: str) -> str:
    """Where this process makes a directory before it is shown: beside it, under a name that no run directory has."""
    parent, name = os.path.split(run_dir)
    return os.path.join(parent, f".{name}.{os.getpid()}.{kind}")


def remove_unfinished(run_dir: str) -> None:
    """Take away what a process left that died while it made this directory under another name."""
    parent, name = os.path.split(run_dir)
    start = f".{name}."
    for other in os.listdir(parent) if os.path.isdir(parent) else []:
        if not other.startswith(start):
            continue
        pid, _, kind = other[len(start) :].partition(".")
        if kind not in ("new", "rebuild") or not pid.isdigit():
            continue
        if int(pid) == os.getpid() or process.started_at(int(pid)) is None:
            import shutil

            shutil.rmtree(os.path.join(parent, other), ignore_errors=True)


def _log_lines(events: Sequence[Event]) -> bytes:
    return b"".join([line for event in events if (line := log_line(event)) is not None])


def _restarted(events: Sequence[Event]) -> bool:
    """Whether the machine started anew since the run's last owner: then the order in which files reached the disk proves nothing."""
    for event in reversed(events):
        if event.event in ("run.started", "run.resumed"):
            owner = event.properties.get("owner")
            identity = owner.get("identity") if isinstance(owner, dict) else None
            boot_id = identity.get("boot_id") if isinstance(identity, dict) else None
            return boot_id is not None and boot_id != process.current().boot_id
    return False
