"""From events to files: one run's log, folded one event after the other, and what each event writes.

The same fold serves a run that is going on, a directory that is behind, and one that is made anew, so they end alike. It needs
nothing but the events and their blobs, and takes whatever a log holds: what is missing or malformed there costs that file only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.clock import rfc3339
from perdure.base.jsonvalue import JSON
from perdure.base.names import file_name
from perdure.views import checkpoint as checkpoints
from perdure.views import nodes, records
from perdure.views.nodes import NodeFolders

if TYPE_CHECKING:
    from perdure.kernel.events import Event
    from perdure.views.files import Files
    from perdure.views.questions import OpenQuestions

Properties = dict[str, JSON]


class Projection:
    """Where a run stands, and the files that say so."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.folders = NodeFolders()
        self.stages = records.Stages()
        self.checkpoint: dict[str, Any] = checkpoints.empty()
        self.status = "submitted"
        self._checkpoint_due = False
        self._questions: OpenQuestions | None = None

    def apply(self, event: Event) -> None:
        """Take one event, the next of the log."""
        handler = _HANDLERS.get(event.event)
        if handler is None or (event.event in _STEP_EVENTS and b'"node_id"' not in event.body):
            return
        handler(self, event, event.properties)

    def write_checkpoint(self) -> None:
        """Write `checkpoint.json` when it changed; once for all events that are written together."""
        if self._checkpoint_due:
            self._checkpoint_due = False
            self.files.write_json("checkpoint.json", self.checkpoint)

    # The run

    def _created(self, event: Event, properties: Properties) -> None:
        self.files.write_json("run.json", records.run_record(event, properties, self.files.resolved))
        for name, key in (("workflow.fabro", "workflow_source"), ("workflow.toml", "workflow_config")):
            if properties.get(key) is not None:
                self.files.write_text(name, properties[key])

    def _started(self, event: Event, properties: Properties) -> None:
        self.status = "running"
        self.files.write_json("start.json", records.start_record(event, properties))

    def _resumed(self, _event: Event, _properties: Properties) -> None:
        self.status = "running"

    def _waiting(self, _event: Event, _properties: Properties) -> None:
        self.status = "waiting"

    def _paused(self, _event: Event, _properties: Properties) -> None:
        self.status = "paused"

    def _settled(self, event: Event, properties: Properties) -> None:
        self.status = str(properties.get("status"))
        self.files.write_json("conclusion.json", self.stages.conclusion(event, properties))
        if properties.get("final_patch") is not None:
            self.files.write_text("final.patch", properties["final_patch"])

    # Nodes

    def _step_started(self, event: Event, properties: Properties) -> None:
        if event.step is not None and properties.get("node_id"):
            self.folders.enter(event.step, str(properties["node_id"]))
            if self.folders.of_visit(event.step) is not None:
                self.stages.begin(event.step, properties)

    def _step_ended(self, event: Event, properties: Properties) -> None:
        folder = self.folders.of_visit(event.step)
        if folder is None or event.step is None:
            return
        result = self.files.resolved(properties.get("result"))
        outcome = result if isinstance(result, dict) else {}
        self.stages.end(event.step, properties, outcome.get("usage"))
        if not properties.get("will_retry"):
            nodes.write_status(self.files, folder, properties, outcome, rfc3339(event.ts))

    def _folder_of(self, event: Event, properties: Properties) -> str | None:
        """Where an event's files go: to the visit that it was emitted in, else to the latest of the node that it names."""
        folder = self.folders.find(event.step)
        if folder is None and isinstance(properties.get("node_id"), str):
            folder = self.folders.latest(str(properties["node_id"]))
        return folder

    def _prompt(self, event: Event, properties: Properties) -> None:
        folder = self._folder_of(event, properties)
        if folder is not None:
            nodes.write_prompt(self.files, folder, properties)

    def _command_started(self, event: Event, properties: Properties) -> None:
        folder = self._folder_of(event, properties)
        if folder is not None:
            nodes.write_invocation(self.files, folder, properties)

    def _command_completed(self, event: Event, properties: Properties) -> None:
        folder = self._folder_of(event, properties)
        if folder is not None:
            nodes.write_command(self.files, folder, properties)

    def _agent_completed(self, event: Event, properties: Properties) -> None:
        folder = self._folder_of(event, properties)
        if folder is not None:
            nodes.write_agent(self.files, folder, properties)

    def _parallel(self, event: Event, properties: Properties) -> None:
        folder = self._folder_of(event, properties)
        if folder is not None:
            self.files.write_json(f"{folder}/parallel_results.json", self.files.resolved(properties.get("results")))

    # Checkpoints

    def _checkpointed(self, event: Event, properties: Properties) -> None:
        resolved = self.files.resolved
        facts = {key: resolved(value) for key, value in properties.items() if key not in ("diff", "offloaded")}
        self.checkpoint = checkpoints.fold(self.checkpoint, facts, rfc3339(event.ts))
        self._checkpoint_due = True
        if properties.get("diff") is not None:
            folder = self.folders.find(str(properties.get("step_id") or "")) or self._folder_of(event, properties)
            if folder is not None:
                self.files.write_text(f"{folder}/diff.patch", properties["diff"])
        if self.files.enabled:
            self._write_offloaded(resolved(properties.get("offloaded")))

    def _write_offloaded(self, values: JSON) -> None:
        """Context values that are too large for the checkpoint lie in files of their own."""
        for key, value in values.items() if isinstance(values, dict) else ():
            name = f"cache/artifacts/values/{file_name(key)}.json"
            self.files.write(name, msgspec.json.encode(self.files.resolved(value)))

    # Questions

    @property
    def questions(self) -> OpenQuestions:
        """The open questions; loaded when there is the first, as few runs ask."""
        if self._questions is None:
            from perdure.views.questions import OpenQuestions

            self._questions = OpenQuestions(self.files)
        return self._questions

    def _asked(self, event: Event, properties: Properties) -> None:
        facts = {key: self.files.resolved(value) for key, value in properties.items()}
        request = records.interview_request(event, facts, self.folders.node_of(event.step))
        self.questions.asked(str(properties.get("question_id")), request)

    def _answered(self, _event: Event, properties: Properties) -> None:
        self.questions.closed(str(properties.get("question_id")))

    # The rest

    def _retro(self, _event: Event, properties: Properties) -> None:
        self.files.write_json("retro.json", self.files.resolved(properties.get("retro")))

    def _captured(self, _event: Event, properties: Properties) -> None:
        folder, manifest = properties.get("folder"), self.files.resolved(properties.get("manifest"))
        if not isinstance(manifest, dict) or not isinstance(folder, str) or not _is_inside(folder):
            return
        self.files.write_json(f"cache/artifacts/files/{folder}/manifest.json", manifest)
        contents = self.files.resolved(properties.get("files"))
        for name, content in contents.items() if isinstance(contents, dict) else ():
            if _is_inside(name) and name != "manifest.json":
                self.files.write_text(f"cache/artifacts/files/{folder}/{name}", content)


def _is_inside(folder: str) -> bool:
    """Whether a relative folder leads nowhere but further in."""
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in folder.split("/"))


# Of steps that are no nodes there is nothing to write but their line.
_STEP_EVENTS = frozenset({"step.started", "step.completed", "step.failed"})

_HANDLERS: dict[str, Callable[[Projection, Event, Properties], None]] = {
    "run.created": Projection._created,
    "run.started": Projection._started,
    "run.resumed": Projection._resumed,
    "run.running": Projection._resumed,
    "run.waiting": Projection._waiting,
    "run.paused": Projection._paused,
    "run.rewound": Projection._paused,
    "run.forked": Projection._paused,
    "run.completed": Projection._settled,
    "run.failed": Projection._settled,
    "run.cancelled": Projection._settled,
    "step.started": Projection._step_started,
    "step.completed": Projection._step_ended,
    "step.failed": Projection._step_ended,
    "step.prompt": Projection._prompt,
    "command.started": Projection._command_started,
    "command.completed": Projection._command_completed,
    "agent.cli.completed": Projection._agent_completed,
    "checkpoint.completed": Projection._checkpointed,
    "parallel.completed": Projection._parallel,
    "interview.started": Projection._asked,
    "interview.completed": Projection._answered,
    "interview.timeout": Projection._answered,
    "retro.completed": Projection._retro,
    "artifact.captured": Projection._captured,
}
