"""The run directory: the log of a run as files that a person can open.

Files are written first and the event's line in `progress.jsonl` last, so the last line there says up to which event the other
files are written. After a kill, `catch_up` folds silently up to it and does the rest. Everything but `worktree/`, answers in
`runtime/` and captured files can be deleted and is made again.

Events that follow each other within a few milliseconds are written together; nothing is put off longer than the engine's
next look at its runs (100 ms), or than a wait or the end of the run. A new directory is filled under another name and then
renamed: it is there with its first files, or not at all.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base import failpoint
from perdure.base.clock import Clock, SystemClock, rfc3339
from perdure.base.jsonvalue import JSON, decode
from perdure.disk import jsonl
from perdure.disk.atomic import private_folder, replace, write_new
from perdure.kernel.lifecycle import SETTLED
from perdure.views import checkpoint as checkpoints
from perdure.views import nodes, records
from perdure.views.cli_log import log_line
from perdure.views.nodes import NodeFolders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.disk.blobs import Blobs
    from perdure.kernel.events import Event

TOGETHER_MS = 10
LIVE_EVERY_MS = 100
_LINK_FROM = 1024 * 1024


class Files:
    """Writes the files of one directory; `enabled` is off while old events are folded silently,
    `hidden` on while nobody can see the directory."""

    def __init__(self, run_dir: str, blobs: Blobs) -> None:
        self.run_dir = run_dir
        self.blobs = blobs
        self.enabled = True
        self.hidden = False
        self._folders: set[str] = set()

    def write(self, name: str, content: bytes) -> None:
        """The file has this content."""
        if not self.enabled:
            return
        if self.hidden:
            write_new(self._ready(name), content)
        else:
            replace(self._ready(name), content, durable=False)

    def write_json(self, name: str, value: object) -> None:
        """The file has this value, indented."""
        if self.enabled:
            self.write(name, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")

    def write_text(self, name: str, value: JSON) -> None:
        """The file has this text, or the content of the blob that the value stands for."""
        if not self.enabled:
            return
        if isinstance(value, dict) and "$blob" in value:
            self._write_blob(name, str(value["$blob"]))
        else:
            self.write(name, b"" if value is None else str(value).encode("utf-8", "replace"))

    def remove(self, name: str) -> None:
        """The file is not there."""
        if self.enabled:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.run_dir, name))

    def resolved(self, value: JSON) -> JSON:
        """The value itself, read from its blob when it lies in one."""
        if isinstance(value, dict) and "$blob" in value:
            content = self.blobs.read(str(value["$blob"]))
            return content.decode("utf-8", "replace") if value.get("form") == "text" else decode(content)
        return value

    def show(self, run_dir: str) -> None:
        """The directory has its final name now."""
        self.run_dir, self.hidden = run_dir, False
        self._folders.clear()

    def _ready(self, name: str) -> str:
        path = f"{self.run_dir}/{name}"
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            private_folder(folder)
            self._folders.add(folder)
        return path

    def _write_blob(self, name: str, digest: str) -> None:
        """A large content shares the blob's disk space; a small one is a copy, so that an edit cannot reach the blob."""
        source = self.blobs.path(digest)
        path = self._ready(name)
        temporary = f"{path}.{os.getpid()}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        if os.path.getsize(source) > _LINK_FROM:
            with suppress(OSError):
                os.link(source, temporary)
        if not os.path.exists(temporary):
            from shutil import copyfile

            copyfile(source, temporary)
            os.chmod(temporary, 0o600)
        os.rename(temporary, path)


class RunDirectory:
    """The subscriber that keeps one run directory level with the log."""

    def __init__(self, run_dir: str, blobs: Blobs, *, durable: bool = False, clock: Clock | None = None) -> None:
        self.run_dir = run_dir
        self.files = Files(run_dir, blobs)
        self.folders = NodeFolders()
        self.checkpoint: dict[str, Any] = checkpoints.empty()
        self.facts: dict[str, Any] = {}
        self._durable = durable
        self._clock = clock or SystemClock()
        self._progress: jsonl.Appender | None = None
        self._backlog: list[Event] = []
        self._is_new = not os.path.exists(run_dir)
        self._latest: Event | None = None
        self._status = "submitted"
        self._written_at = 0.0
        self._live_at = -1e9
        self._live_due = False
        self._log_lines: list[bytes] = []

    # What the engine calls

    def catch_up(self, events: Sequence[Event]) -> None:
        if self._is_new:
            _remove_unfinished(self.run_dir)
        written = last_written_seq(f"{self.run_dir}/progress.jsonl")
        self.files.enabled = False
        for event in events:
            if event.seq <= written:
                self._apply(event)
        self._log_lines.clear()
        self.files.enabled = True
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

    def _write(self, now: float) -> None:
        """Bring the files level with what was committed."""
        events, self._backlog = self._backlog, []
        self._written_at = now
        hidden = f"{self.run_dir}.{os.getpid()}.new"
        is_new = self._is_new
        if is_new:
            private_folder(hidden)
            self.files.run_dir, self.files.hidden = hidden, True
        for event in events:
            self._apply(event)
        if self._progress is None:
            private_folder(self.files.run_dir)
            self._progress = jsonl.Appender(f"{self.files.run_dir}/progress.jsonl", label="views.progress")
        self._progress.append(b"".join([event.line() for event in events]))
        if now - self._live_at >= LIVE_EVERY_MS:
            self._write_live(now)
        if is_new:
            failpoint.before_write("views.directory")
            os.rename(hidden, self.run_dir)
            failpoint.after_write("views.directory")
            self.files.show(self.run_dir)
            self._is_new = False
        if self._durable and self._status in SETTLED:
            self._progress.sync()

    # One event

    def _apply(self, event: Event) -> None:
        self._latest = event
        self._live_due = True
        handler = _HANDLERS.get(event.event)
        if handler is not None and (b'"node_id"' in event.body or event.event not in _NODE_EVENTS):
            handler(self, event, event.properties)
        line = log_line(event)
        if line is not None and self.files.enabled:
            self._log_lines.append(line)

    def _write_live(self, now: float) -> None:
        self._live_at = now
        self._live_due = False
        latest = self._latest
        if latest is not None:
            envelope = decode(latest.line())
            assert isinstance(envelope, dict)
            self.files.write_json("live.json", {"status": self._status} | envelope)
        if self._log_lines:
            handle = os.open(
                f"{self.files.run_dir}/cli.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(handle, b"".join(self._log_lines))
            finally:
                os.close(handle)
            self._log_lines.clear()

    # What single events write

    def _created(self, event: Event, properties: dict[str, JSON]) -> None:
        self.facts["created"] = properties
        self.files.write_json("run.json", records.run_record(event, properties, self.files.resolved))
        source = properties.get("workflow_source")
        if source is not None:
            self.files.write_text("workflow.fabro", source)
        config = properties.get("workflow_config")
        if config is not None:
            self.files.write_text("workflow.toml", config)

    def _started(self, event: Event, properties: dict[str, JSON]) -> None:
        self._status = "running"
        self.facts["started_at"] = event.ts
        self.files.write_json("start.json", records.start_record(event, properties))

    def _resumed(self, _event: Event, _properties: dict[str, JSON]) -> None:
        self._status = "running"

    def _waiting(self, _event: Event, _properties: dict[str, JSON]) -> None:
        self._status = "waiting"

    def _paused(self, _event: Event, _properties: dict[str, JSON]) -> None:
        self._status = "paused"

    def _settled(self, event: Event, properties: dict[str, JSON]) -> None:
        self._status = str(properties.get("status"))
        self.files.write_json("conclusion.json", records.conclusion_record(event, properties, self.facts))
        if properties.get("final_patch") is not None:
            self.files.write_text("final.patch", properties["final_patch"])

    def _step_started(self, event: Event, properties: dict[str, JSON]) -> None:
        if event.step is not None and properties.get("node_id"):
            folder = self.folders.enter(event.step, str(properties["node_id"]))
            records.note_stage(self.facts, event, properties, folder)

    def _step_ended(self, event: Event, properties: dict[str, JSON]) -> None:
        if properties.get("node_id") and not properties.get("will_retry"):
            folder = self.folders.find(event.step)
            if folder is not None:
                nodes.write_status(self.files, folder, properties, rfc3339(event.ts))
        records.note_stage_end(self.facts, event, properties)

    def _in_folder(self, event: Event, write: Callable[[Files, str, dict[str, JSON]], None]) -> None:
        folder = self.folders.find(event.step)
        if folder is not None:
            write(self.files, folder, event.properties)

    def _checkpoint(self, event: Event, properties: dict[str, JSON]) -> None:
        self.checkpoint = checkpoints.fold(self.checkpoint, properties, rfc3339(event.ts))
        if properties.get("diff") is not None:
            folder = self.folders.find(str(properties.get("step_id") or "")) or f"nodes/{properties.get('node_id')}"
            self.files.write_text(f"{folder}/diff.patch", properties["diff"])
        values = properties.get("context_values_set")
        if isinstance(values, dict):
            for key, value in values.items():
                if isinstance(value, str) and value.startswith("file://"):
                    self._offloaded(key, properties)
        self.files.write_json("checkpoint.json", self.checkpoint)

    def _offloaded(self, key: str, properties: dict[str, JSON]) -> None:
        """A context value that is too large for the checkpoint lies in a file of its own."""
        large = self.files.resolved(properties.get("offloaded"))
        if isinstance(large, dict) and key in large:
            from perdure.base.names import file_name

            name = f"cache/artifacts/values/{file_name(key)}.json"
            value = self.files.resolved(large[key])
            self.files.write(name, msgspec.json.encode(value))

    def _parallel(self, event: Event, properties: dict[str, JSON]) -> None:
        folder = self.folders.find(event.step)
        if folder is not None:
            self.files.write_json(f"{folder}/parallel_results.json", self.files.resolved(properties.get("results")))

    def _asked(self, event: Event, properties: dict[str, JSON]) -> None:
        record = records.interview_request(event, properties)
        self.facts.setdefault("questions", {})[str(properties["question_id"])] = record
        self._write_questions()

    def _answered(self, _event: Event, properties: dict[str, JSON]) -> None:
        question_id = str(properties["question_id"])
        self.facts.setdefault("questions", {}).pop(question_id, None)
        self.files.remove(f"runtime/interview_requests/{question_id}.json")
        self.files.remove(f"runtime/interview_responses/{question_id}.json")
        self.files.remove("runtime/interview_response.json")
        self._write_questions()

    def _write_questions(self) -> None:
        """The oldest open question under the one name, and each under its own."""
        questions = self.facts["questions"]
        for question_id, record in questions.items():
            self.files.write_json(f"runtime/interview_requests/{question_id}.json", record)
        if questions:
            self.files.write_json("runtime/interview_request.json", next(iter(questions.values())))
        else:
            self.files.remove("runtime/interview_request.json")

    def _retro(self, _event: Event, properties: dict[str, JSON]) -> None:
        self.files.write_json("retro.json", self.files.resolved(properties.get("retro")))

    def _artifacts(self, _event: Event, properties: dict[str, JSON]) -> None:
        if isinstance(properties.get("manifest"), dict):
            folder = str(properties.get("folder"))
            self.files.write_json(f"cache/artifacts/files/{folder}/manifest.json", properties["manifest"])


def _remove_unfinished(run_dir: str) -> None:
    """Take away what an owner left that died while it made this directory under another name."""
    import shutil

    parent, name = os.path.split(run_dir)
    for other in os.listdir(parent) if os.path.isdir(parent) else []:
        if other.startswith(f"{name}.") and other.endswith(".new"):
            shutil.rmtree(os.path.join(parent, other), ignore_errors=True)


def last_written_seq(path: str) -> int:
    """The number of the last whole event in a `progress.jsonl`; 0 when there is none."""
    try:
        size = os.path.getsize(path)
    except FileNotFoundError:
        return 0
    start = max(0, size - 256 * 1024)
    last = 0
    for found in jsonl.read(path, start):
        if isinstance(found, jsonl.Record) and isinstance(found.value, dict):
            seq = found.value.get("seq")
            if isinstance(seq, int) and "properties" in found.value:
                last = seq
    return last


# Of steps that are no nodes there is nothing to write but their line.
_NODE_EVENTS = frozenset({"step.started", "step.completed", "step.failed"})

_HANDLERS: dict[str, Any] = {
    "run.created": RunDirectory._created,
    "run.started": RunDirectory._started,
    "run.resumed": RunDirectory._resumed,
    "run.running": RunDirectory._resumed,
    "run.waiting": RunDirectory._waiting,
    "run.paused": RunDirectory._paused,
    "run.completed": RunDirectory._settled,
    "run.failed": RunDirectory._settled,
    "run.cancelled": RunDirectory._settled,
    "step.started": RunDirectory._step_started,
    "step.completed": RunDirectory._step_ended,
    "step.failed": RunDirectory._step_ended,
    "step.prompt": lambda view, event, _p: view._in_folder(event, nodes.write_prompt),
    "command.started": lambda view, event, _p: view._in_folder(event, nodes.write_invocation),
    "command.completed": lambda view, event, _p: view._in_folder(event, nodes.write_command),
    "checkpoint.completed": RunDirectory._checkpoint,
    "parallel.completed": RunDirectory._parallel,
    "interview.started": RunDirectory._asked,
    "interview.completed": RunDirectory._answered,
    "interview.timeout": RunDirectory._answered,
    "retro.completed": RunDirectory._retro,
    "artifact.captured": RunDirectory._artifacts,
}
