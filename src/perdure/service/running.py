"""Making runs and executing them: the engine with its views, its interviewers and its clean-up."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.errors import Refused
from perdure.kernel.ending import RunResult
from perdure.kernel.engine import Engine
from perdure.views.gate_files import GateFiles
from perdure.views.run_directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from perdure.graph.definition import GraphDefinition
    from perdure.kernel.interviewer import Interviewer
    from perdure.kernel.subscriber import Subscriber
    from perdure.service.state import State
    from perdure.service.workflows import Prepared
    from perdure.store.records import RunRow

EXIT_CODES = {
    "succeeded": 0,
    "partially_succeeded": 0,
    "failed": 1,
    "cancelled": 2,
    "waiting": 4,
    "paused": 4,
}


def new_engine(state: State, *, park: bool, watch: Callable[[str], Subscriber] | None = None) -> Engine:
    """The engine of this state; `watch` makes one more subscriber for each run."""
    masker = state.masker()

    def subscribers(run_id: str, run_dir: str) -> Sequence[Subscriber]:
        view = RunDirectory(run_dir, state.blobs, durable=state.durability == "full")
        return [view] if watch is None else [view, watch(run_id)]

    return Engine(state.store, state.blobs, subscribers=subscribers, run_dir=state.home.run_dir, mask=masker, park=park)


def submit(state: State, prepared: Prepared) -> str:
    """A run that waits to be started; its id."""
    engine = new_engine(state, park=True)
    return engine.submit(prepared.definition, properties=prepared.properties, record=prepared.record)


def run_now(
    state: State,
    prepared: Prepared,
    *,
    interviewers: Sequence[Interviewer] = (),
    watch: Callable[[str], Subscriber] | None = None,
    on_made: Callable[[str], None] | None = None,
) -> RunResult:
    """Make a run and execute it here to its end, or until it waits for somebody who is not here."""
    engine = new_engine(state, park=True, watch=watch)
    return attended_run(
        engine.run(
            prepared.definition,
            properties=prepared.properties,
            record=prepared.record,
            interviewers=[GateFiles(), *interviewers],
            on_made=on_made,
        )
    )


def execute(
    state: State,
    row: RunRow,
    *,
    park: bool = True,
    interviewers: Sequence[Interviewer] = (),
    watch: Callable[[str], Subscriber] | None = None,
    accept_changes: bool = False,
    keep_recorded: bool = False,
    backend: Backend | None = None,
) -> RunResult:
    """Go on with a run. An edited graph is refused unless its changes are accepted, or the recorded graph is wanted.
    Another `backend` answers its agents from now on."""
    engine = new_engine(state, park=park, watch=watch)
    changed = None if keep_recorded or row.parent else changed_definition(state, row, accept=accept_changes)
    if backend is not None:
        changed = with_backend(state, row, changed, backend)
    return attended_run(
        engine.execute(
            row.run_id,
            interviewers=[GateFiles(), *interviewers],
            accept_changes=accept_changes,
            changed=changed,
        )
    )


def attended_run(call: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Run to the end; a hang-up and a request to end are taken like Ctrl-C, so that the run pauses and its processes end."""

    async def main() -> RunResult:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, task.cancel)
        return await call

    return asyncio.run(main())


class Backend(msgspec.Struct, frozen=True):
    """Who answers a run's agents, as a person says it; empty fields leave what was recorded."""

    name: str = ""
    command: str = ""
    script: str = ""


def with_backend(
    state: State, row: RunRow, changed: GraphDefinition | None, backend: Backend
) -> GraphDefinition | None:
    """The run's definition with another backend; None when nothing differs. Raises `Refused` for an unknown one."""
    import os

    from perdure.graph.config import Config, command_argv
    from perdure.graph.definition import GraphDefinition
    from perdure.service.workflows import check_backend

    if not (backend.name or backend.command or backend.script):
        return changed
    found = changed or recorded_definition(state, row)
    assert isinstance(found, GraphDefinition)
    options = msgspec.structs.replace(
        found.options,
        backend=backend.name or ("command" if backend.command else found.options.backend),
        command=command_argv(Config(command=backend.command)) if backend.command else found.options.command,
        script=os.path.abspath(backend.script) if backend.script else found.options.script,
    )
    check_backend(found.graph, options)
    return GraphDefinition(found.graph, found.source, found.path, found.dialect, found.files, options)


class DefinitionChanged(Refused):
    """The workflow's file says something else than when the run was made."""

    code = "definition_changed"


def changed_definition(state: State, row: RunRow, *, accept: bool) -> GraphDefinition | None:
    """The edited graph, when there is one and it is accepted. Raises `DefinitionChanged` with what differs."""
    import os

    from perdure.graph.definition import GraphDefinition, differences

    recorded = recorded_definition(state, row)
    if not isinstance(recorded, GraphDefinition) or not os.path.isfile(recorded.path):
        return None
    from perdure.service.workflows import load_file

    loaded, files = load_file(recorded.path, variables=recorded.options.variables, dialect=recorded.dialect.name)
    if loaded.graph is not None and not differences(recorded.graph, loaded.graph):
        return None
    if not accept:
        texts = differences(recorded.graph, loaded.graph) if loaded.graph is not None else ["it is no graph any more"]
        shown = "\n".join(f"  {text}" for text in texts[:20])
        raise DefinitionChanged(
            f"{recorded.path} changed since run {row.run_id} was made:\n{shown}",
            hint="Resume with --accept-changes to go on with the file, or with --keep-recorded to go on as it was.",
        )
    if loaded.graph is None or loaded.errors:
        from perdure.graph.load import InvalidGraph

        raise InvalidGraph(recorded.path, loaded.diagnostics)
    return GraphDefinition(loaded.graph, loaded.source, recorded.path, loaded.dialect, files.read, recorded.options)


def recorded_definition(state: State, row: RunRow) -> object:
    """The definition that the run's log holds."""
    from perdure.kernel import definition, large
    from perdure.kernel.events import event_of

    found = None
    for each in state.store.read_events(row.no):
        if each.event in ("run.created", "run.definition_changed"):
            found = large.resolve(event_of(row.run_id, each).properties.get("definition"), state.blobs)
    assert isinstance(found, dict)
    return definition.load(str(found["kind"]), found["body"])  # type: ignore[arg-type]


def answer_of(text: str, question: object) -> object:
    """A person's words as an answer to a question. Raises `Refused` when they are no choice."""
    from perdure.kernel.question import Answer, Question

    assert isinstance(question, Question)
    wanted = text.strip()
    lower = wanted.lower()
    for option in question.options:
        if lower in (option.key.lower(), option.label.lower()):
            return Answer("selected", [option.key])
    if question.type in ("yes_no", "confirmation") and lower in ("y", "yes", "n", "no"):
        return Answer("yes" if lower.startswith("y") else "no")
    if question.type == "multi_select" and wanted:
        keys = {option.key.lower(): option.key for option in question.options}
        parts = [part.strip().lower() for part in wanted.split(",")]
        if all(part in keys for part in parts):
            return Answer("multi_selected", [keys[part] for part in parts])
    if (question.allow_freeform or question.type == "freeform") and wanted:
        return Answer("text", text=wanted)
    choices = ", ".join(f"{option.key} ({option.label})" for option in question.options) or "yes, no"
    raise Refused(f"{wanted!r} is no choice.", hint=f"Choices: {choices}.")
