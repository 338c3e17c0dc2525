"""What a person asks of a run that somebody executes, or nobody: answers, cancels, pauses, words to its agents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base import ids
from perdure.base.errors import NotFinished, NotFound, Refused
from perdure.base.jsonvalue import encode
from perdure.kernel.lifecycle import SETTLED
from perdure.kernel.ownership import liveness
from perdure.kernel.question import Answer, Question

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow

# The events that tell of a process.
_STARTED = (
    "command.started",
    "agent.cli.started",
    "agent.tool.started",
    "agent.mcp.started",
    "setup.command.started",
    "hook.started",
)


class AlreadyAnswered(Refused):
    """Somebody was faster: the first answer counts."""

    code = "already_answered"


def answer(state: State, row: RunRow, text: str, question_id: str | None) -> dict[str, Any]:
    """Record a person's answer; whoever executes the run, now or later, goes on with it.

    With several open questions the id must be given. A step's own process is told apart: it cannot satisfy a gate of its run,
    nor of a run that its run belongs to."""
    from perdure.service.running import answer_of
    from perdure.views.gate_files import write_response

    inside = state.environ.get("PERDURE_RUN_ID")
    if inside and _root_of(state, inside) == _root_of(state, row.run_id):
        raise Refused(
            f"A step of run {row.run_id} cannot answer for a person.", hint="Answer from a shell of your own."
        )
    open_now = [each for each in _questions(state, row) if each.answer is None]
    if question_id is not None:
        open_now = [each for each in open_now if each.question_id.startswith(question_id.upper())]
    if not open_now:
        if question_id is None and _questions(state, row):
            raise AlreadyAnswered(f"The question of run {row.run_id} is answered already.", hint=_go_on(row))
        raise NotFound(f"Run {row.run_id} has no open question{' of that id' if question_id else ''}.")
    if len(open_now) > 1:
        shown = "\n".join(f"  {each.question_id}  {each.step}" for each in open_now)
        raise Refused(f"Run {row.run_id} has {len(open_now)} open questions:\n{shown}", hint="Pass --question ID.")
    found = open_now[0]
    question = msgspec.json.decode(found.question, type=Question)
    given = answer_of(text, question)
    assert isinstance(given, Answer)
    masked = state.masker().mask(encode(given)).decode()
    if not state.store.answer(found.question_id, masked, ids.now_ms()):
        raise AlreadyAnswered(f"Question {found.question_id} is answered already.")
    owner = state.store.find_run(found.run_id)
    assert owner is not None
    write_response(state.run_dir(owner), found.question_id, given)
    return {
        "run_id": row.run_id,
        "question_id": found.question_id,
        "answer": msgspec.to_builtins(given),
        "goes_on": liveness(row) == "alive",
    }


def is_open(state: State, question_id: str) -> bool:
    """Whether somebody still waits for an answer to the question, and none was given."""
    return any(each.question_id == question_id and each.answer is None for each in state.store.open_questions())


def _questions(state: State, row: RunRow) -> list[Any]:
    """The open questions of a run and of its child runs."""
    found = state.store.open_questions(row.no)
    for child in state.store.child_runs(row.run_id):
        found += _questions(state, child)
    return found


def _root_of(state: State, run_id: str) -> str:
    """The run that started this one, or the one that started that, and so on."""
    row = state.store.find_run(run_id)
    return run_id if row is None or row.parent is None else _root_of(state, row.parent)


def _go_on(row: RunRow) -> str:
    return f"`perdure resume {row.run_id}` goes on." if liveness(row) != "alive" else "The run goes on."


def request(state: State, row: RunRow, kind: str, body: dict[str, Any]) -> None:
    """Ask something of the run's owner. Raises `NotFinished` when nobody executes it, `Refused` when it is settled."""
    if row.status in SETTLED:
        raise Refused(f"Run {row.run_id} is {row.status}; it never changes again.")
    if liveness(row) != "alive":
        raise NotFinished(f"Nobody executes run {row.run_id}.", hint=f"`perdure resume {row.run_id}` goes on with it.")
    text = state.masker().mask(encode(body)).decode()
    state.store.request(row.no, kind, text, ids.now_ms())


def cancel(state: State, row: RunRow, reason: str, limit_s: float) -> str:
    """End a run; its last status. Returns when its processes are gone. A run that nobody executes is settled here."""
    if row.status in SETTLED:
        raise Refused(f"Run {row.run_id} is {row.status} already.")
    if liveness(row) in ("alive", "unknown"):
        request(state, row, "cancel", {"reason": reason})
        return wait_until_settled(state, row.run_id, limit_s)
    _settle(state, row, reason)
    return "cancelled"


def _settle(state: State, row: RunRow, reason: str) -> None:
    """End a run that nobody executes, and before it the child runs that its owner left."""
    from perdure.service.running import cancel_idle, relocated

    row = relocated(state, row)
    for child in state.store.child_runs(row.run_id):
        if child.status not in SETTLED:
            _settle(state, child, reason)
    end_processes(state, row)
    cancel_idle(state, row.run_id, reason)


def wait_until_settled(state: State, run_id: str, limit_s: float | None, poll_s: float = 0.05) -> str:
    """The status that the run settles with. Raises `StillGoing` when it took longer."""
    from perdure.kernel.ownership import true_status

    deadline = None if limit_s is None else time.monotonic() + limit_s
    while True:
        row = state.store.find_run(run_id)
        if row is None:
            raise NotFound(f"Run {run_id} is gone.")
        status = true_status(row)
        if status in SETTLED:
            return status
        if status == "interrupted":
            raise NotFinished(
                f"Run {run_id} is interrupted: its owner is gone.", hint=f"`perdure resume {run_id}` goes on."
            )
        if deadline is not None and time.monotonic() > deadline:
            raise StillGoing(f"Run {run_id} is {status} after {limit_s:g} s; it goes on.")
        time.sleep(poll_s)


class StillGoing(NotFinished):
    """The watcher stopped waiting; the run goes on."""

    code = "still_going"
    exit_code = 3


def end_processes(state: State, row: RunRow) -> list[int]:
    """End what a dead owner left running; the pids that would not go."""
    from perdure.kernel.events import event_of
    from perdure.kernel.history import History
    from perdure.sandbox.groups import Group, end_leftovers

    history = History()
    history.fold(event_of(row.run_id, each) for each in state.store.read_events(row.no))
    survivors: list[int] = []
    for step in history.open_steps():
        for name in _STARTED:
            for event in history.emitted.get((step, name), ()):
                group = event.properties.get("process_group")
                if isinstance(group, dict):
                    survivors += end_leftovers(msgspec.convert(group, Group))
    return survivors
