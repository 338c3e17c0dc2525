"""Making runs and executing them: the engine with its views, its interviewers and its clean-up."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

import msgspec

from perdure.base.errors import EnvironmentFault, Refused
from perdure.kernel.capacity.limits import NO_LIMITS, Limits
from perdure.kernel.ending import RunResult
from perdure.kernel.engine import Engine
from perdure.kernel.lifecycle import SETTLED
from perdure.service.capacity import machine_limits
from perdure.service.stopping import run_until_stopped
from perdure.views.gate_files import GateFiles
from perdure.views.run_directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.graph.definition import GraphDefinition
    from perdure.graph.options import Options
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
    """The engine of this state, within the limits that hold now; `watch` makes one more subscriber for each run. Raises `BadLimits`."""
    return _engine(state, machine_limits(state.home), park=park, watch=watch)


def cancel_idle(state: State, run_id: str, reason: str) -> None:
    """End a run that nobody executes: nothing is started, so no limits are asked for. Raises `OwnedElsewhere`."""
    _engine(state, NO_LIMITS, park=True, watch=None).cancel_idle(run_id, reason)


def _engine(state: State, limits: Limits, *, park: bool, watch: Callable[[str], Subscriber] | None) -> Engine:
    masker = state.masker()

    def subscribers(run_id: str, run_dir: str) -> Sequence[Subscriber]:
        view = RunDirectory(run_dir, state.blobs, durable=state.durability == "full")
        return [view] if watch is None else [view, watch(run_id)]

    return Engine(
        state.store,
        state.blobs,
        subscribers=subscribers,
        run_dir=state.home.run_dir,
        mask=masker,
        park=park,
        limits=limits,
        state_root=state.home.root,
    )


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
    on_signal: Callable[[int], None] | None = None,
) -> RunResult:
    """Make a run and execute it here to its end, or until it waits for somebody who is not here.

    `on_signal` hears of each request to stop (`run_until_stopped`)."""
    engine = new_engine(state, park=True, watch=watch)
    result = run_until_stopped(
        engine.run(
            prepared.definition,
            properties=prepared.properties,
            record=prepared.record,
            interviewers=[GateFiles(), *interviewers],
        ),
        on_signal,
    )
    _keep_within_bounds(state, engine.limits)
    return result


def execute(
    state: State,
    row: RunRow,
    *,
    park: bool = True,
    interviewers: Sequence[Interviewer] = (),
    watch: Callable[[str], Subscriber] | None = None,
    change: Change | None = None,
    on_signal: Callable[[int], None] | None = None,
) -> RunResult:
    """Go on with a run, with what the `change` wants otherwise from now on. An edited graph is refused unless it says what to do.

    Raises `DefinitionChanged`, and `WorkingFolderGone` when the folder that the run works in is not there."""
    engine = new_engine(state, park=park, watch=watch)
    change = change or Change()
    row = relocated(state, row)
    changed = None
    if row.status not in SETTLED:
        recorded = recorded_definition(state, row)
        edited = None
        if change.edits != "ignore" and row.parent is None:
            edited = edited_definition(row, recorded, accept=change.edits == "accept")
        changed = with_change(row, recorded, edited, change)
    result = run_until_stopped(
        engine.execute(
            row.run_id,
            interviewers=[GateFiles(), *interviewers],
            accept_changes=change.edits == "accept",
            changed=changed,
        ),
        on_signal,
    )
    _keep_within_bounds(state, engine.limits)
    return result


def _keep_within_bounds(state: State, limits: Limits) -> None:
    """Let the oldest conversations of agents go when all of them take too much room."""
    if not os.path.isdir(state.home.agent_sessions):
        return
    from perdure.service.sessions import collect_after_run

    warning = collect_after_run(state, limits.agent_sessions)
    if warning is not None:
        sys.stderr.write(f"warn: {warning}\n")


def relocated(state: State, row: RunRow) -> RunRow:
    """The run as it is to be executed: when the state home was moved, its new directory is remembered, and Git told of it."""
    found = state.remember_place(row)
    worktree = os.path.join(found.run_dir, "worktree")
    if found.run_dir != row.run_dir and os.path.isdir(worktree):
        from perdure.git.command import git

        git(worktree, "worktree", "repair", check=False)
    return found


class Change(msgspec.Struct, frozen=True):
    """What a person wants otherwise from now on: who answers the run's agents, the folder that it works in, what it may use. Empty
    fields leave what was recorded. `edits` says what becomes of edits of the workflow file since the run was made."""

    name: str = ""
    command: str = ""
    script: str = ""
    directory: str = ""
    budget_usd: float | None = None
    budget_tokens: int | None = None
    allow_unknown_cost: bool = False
    edits: Literal["refuse", "accept", "ignore"] = "refuse"


class WorkingFolderGone(EnvironmentFault):
    """The folder that a run works in was moved or removed; the run never goes on in another one by itself."""

    code = "working_folder_gone"


def with_change(
    row: RunRow, recorded: object, edited: GraphDefinition | None, change: Change
) -> GraphDefinition | None:
    """The run's definition with what is wanted otherwise; the edited one, or None, when nothing is.

    Raises `Refused` for an unknown backend, `WorkingFolderGone`."""
    from perdure.graph.definition import GraphDefinition

    found = edited or recorded
    if not isinstance(found, GraphDefinition):
        return edited
    options = found.options
    if change.name or change.command or change.script:
        options = _with_backend(found, change)
    if change.directory:
        options = msgspec.structs.replace(options, working_directory=_new_directory(options, change.directory))
    _check_directory(row, options)
    budget = found.options.budget
    if change.budget_usd is not None:
        budget = msgspec.structs.replace(budget, usd=change.budget_usd)
    if change.budget_tokens is not None:
        budget = msgspec.structs.replace(budget, tokens=change.budget_tokens)
    if budget != found.options.budget:
        options = msgspec.structs.replace(options, budget=budget)
    if change.allow_unknown_cost:
        options = msgspec.structs.replace(options, allow_unknown_cost=True)
    if options is found.options:
        return edited
    return GraphDefinition(found.graph, found.source, found.path, found.dialect, found.files, options)


def _with_backend(found: GraphDefinition, change: Change) -> Options:
    from perdure.graph.config import Config, command_argv
    from perdure.service.agents import check_agents

    options = msgspec.structs.replace(
        found.options,
        backend=change.name or ("command" if change.command else found.options.backend),
        command=command_argv(Config(command=change.command)) if change.command else found.options.command,
        script=os.path.abspath(change.script) if change.script else found.options.script,
    )
    check_agents(found.graph, options, None)
    return options


def _new_directory(options: Options, directory: str) -> str:
    if options.git == "worktree":
        raise Refused(
            f"The run works in a worktree of {options.repository}; its folder cannot be another one.",
            hint="Move the repository back, or put a link to it there.",
        )
    return os.path.abspath(directory)


def _check_directory(row: RunRow, options: Options) -> None:
    if options.dry_run:
        return
    if options.git == "worktree":
        folder, hint = options.repository or "", "Move it back, or put a link to it there."
    else:
        folder, hint = options.working_directory, "Move it back, or resume with --cwd DIR."
    if not os.path.isdir(folder):
        raise WorkingFolderGone(f"Run {row.run_id} works in {folder}, which is not there.", hint=hint)


class DefinitionChanged(Refused):
    """The workflow's file says something else than when the run was made."""

    code = "definition_changed"


def edited_definition(row: RunRow, recorded: object, *, accept: bool) -> GraphDefinition | None:
    """The edited graph, when there is one and it is accepted. Raises `DefinitionChanged` with what differs."""
    from perdure.graph.definition import GraphDefinition, differences

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
