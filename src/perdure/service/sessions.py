"""Conversations of agents: which there are, which one a person means, how one reads, and keeping them within bounds."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

from perdure.agents.sessions.collection import Collected, collect
from perdure.agents.sessions.events import Answer, Delivery, End, Event
from perdure.agents.sessions.files import check_session_id, list_files, session_path
from perdure.agents.sessions.following import Following
from perdure.agents.sessions.listing import Listed, list_sessions, listed, read_header
from perdure.agents.sessions.reader import Entry, Problem, Summary, read_events, summary
from perdure.agents.sessions.reference import Reference, parse_reference, reference_of
from perdure.agents.sessions.transcript import Block, Transcript
from perdure.base.errors import EnvironmentFault, NotFound, PerdureError, Refused
from perdure.kernel.events import event_of
from perdure.kernel.lifecycle import SETTLED
from perdure.service.find import find_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.kernel.capacity.limits import AgentSessions
    from perdure.service.state import State
    from perdure.store.records import RunRow

__all__ = ["Block", "Listed", "Problem", "Summary", "Transcript", "list_sessions", "summary"]
FOLLOW_POLL_S = 0.2
_SHOWN = 8
_LIST = "`perdure session list` lists those that are here."


class SessionRemote(Refused):
    """A reference to a session of another machine or state."""

    code = "session_remote"


class SessionCollected(Refused):
    """The session was saved, and its file is gone."""

    code = "session_collected"


class SessionNeverSaved(Refused):
    """The step had no session, or it could not be saved."""

    code = "session_never_saved"


class SessionUnknown(Refused):
    """No session here has that id, and nothing says whether there was one."""

    code = "session_unknown"


class AmbiguousSession(Refused):
    """Several sessions are meant."""

    code = "ambiguous_session"


class FoundSession(msgspec.Struct, frozen=True):
    """The session that a person means: its id, its file, and how it is named to others."""

    session_id: str
    path: str
    reference: str


def find_session(state: State, text: str) -> FoundSession:
    """The session that a reference, `RUN/STEP`, an id or its beginning, or a run with one session means.

    Raises `SessionRemote`, `SessionCollected`, `SessionNeverSaved`, `SessionUnknown`, `AmbiguousSession`, `UnreadableSession`,
    `UnsafePath`, `BadName`, and for an unknown run or step `NotFound`."""
    reference = parse_reference(text)
    if reference is not None:
        return _by_reference(state, reference)
    run, slash, step = text.partition("/")
    if slash:
        return _by_step(state, find_run(state, run), step)
    return _by_id(state, check_session_id(text))


def _by_reference(state: State, reference: Reference) -> FoundSession:
    own = state.store.state_id() if state.has_runs else None
    if reference.state_id != own:
        raise SessionRemote(
            f"Session {reference.session_id} lies in another state ({reference.state_id}), of {reference.producer}.",
            hint="Show it there, or pass --state-dir.",
        )
    path = session_path(state.home, reference.session_id)
    if not os.path.lexists(path):
        raise _collected(reference.session_id)
    header = read_header(path)
    if header.run_id not in (None, reference.run_id):
        raise SessionUnknown(f"Session {reference.session_id} is of run {header.run_id}, not {reference.run_id}.")
    return FoundSession(reference.session_id, path, reference.text())


def _by_id(state: State, text: str) -> FoundSession:
    ids = [each.session_id for each in list_files(state.home)]
    found = [text] if text in ids else [each for each in ids if each.lower().startswith(text.lower())]
    if len(found) == 1:
        return _found(state, found[0])
    if found:
        raise AmbiguousSession(_several(f"{text} begins the ids", found), hint="Write more of the id.")
    row = _run_of(state, text)
    if row is not None:
        return _only_one(state, row, _sessions_of(state, row, ""), "")
    raise SessionUnknown(
        f"No session here has an id that begins with {text!r}: it was collected, or never saved.",
        hint=f"{_LIST} RUN/STEP tells the two apart.",
    )


def _run_of(state: State, text: str) -> RunRow | None:
    if not state.has_runs:
        return None
    try:
        return find_run(state, text)
    except NotFound:
        return None


def _by_step(state: State, row: RunRow, step: str) -> FoundSession:
    return _only_one(state, row, _sessions_of(state, row, step), step)


def _only_one(state: State, row: RunRow, found: list[Listed], step: str) -> FoundSession:
    if not found:
        raise _missing(state, row, step)
    if len(found) > 1 and not step:
        shown = [f"{each.session_id}  {each.request_id}" for each in found]
        raise AmbiguousSession(_several(f"Run {row.run_id} has the ids", shown), hint="Name the step: RUN/STEP.")
    return _found(state, found[0].session_id)


def _sessions_of(state: State, row: RunRow, step: str) -> list[Listed]:
    """The run's sessions of a step, or of a node's every visit, newest first; all of the run's without a step."""
    found = [each for each in list_sessions(state.home) if each.run_id == row.run_id]
    exact = [each for each in found if step in ("", each.request_id)]
    return exact or [each for each in found if each.eval_id == step]


def _missing(state: State, row: RunRow, step: str) -> PerdureError:
    """Why there is no session: the log of the run says which were saved, in the property `session_id` of its events."""
    is_there = not step
    for each in state.store.read_events(row.no):
        where = each.step or ""
        if step and where != step and not where.startswith((f"{step}/", f"{step}@")):
            continue
        is_there = is_there or bool(where)
        if b'"session_id"' in each.body:
            saved = event_of(row.run_id, each).properties.get("session_id")
            if isinstance(saved, str) and saved:
                return _collected(saved)
    if not is_there:
        return NotFound(f"Run {row.run_id} has no step {step!r}.", hint=f"`perdure show {row.run_id}` lists them.")
    whose = f"step {step} of run {row.run_id}" if step else f"run {row.run_id}"
    return SessionNeverSaved(f"No session of {whose} was saved.", hint=_LIST)


def _collected(session_id: str) -> SessionCollected:
    return SessionCollected(
        f"Session {session_id} was saved and is gone: collected, to keep sessions within their bounds, or removed.",
        hint=_LIST,
    )


def _several(what: str, found: list[str]) -> str:
    return f"{what} of {len(found)} sessions:\n" + "\n".join(f"  {each}" for each in found[:_SHOWN])


def _found(state: State, session_id: str) -> FoundSession:
    path = session_path(state.home, session_id)
    return FoundSession(session_id, path, reference_of(read_header(path), session_id))


def entries_of(found: FoundSession) -> Iterator[Entry | Problem]:
    """The session's events, one at a time. Raises `UnreadableSession`, `EnvironmentFault`."""
    try:
        yield from read_events(found.path)
    except OSError as error:
        raise EnvironmentFault(f"{found.path} cannot be read: {error.strerror}.") from error


def transcript_of(found: FoundSession) -> Iterator[Block | Problem]:
    """The session as people read it, final blocks only, one at a time."""
    transcript = Transcript()
    for each in entries_of(found):
        if isinstance(each, Problem):
            yield each
        else:
            yield from (block for block in transcript.feed(each.event) if block.is_final)
    yield from transcript.rest()


def follow_session(found: FoundSession) -> Iterator[Entry | Problem | str | None]:
    """The session's events, then those that come; None after each look; `replaced` or `removed` when all that came before is
    void. Whoever reads decides when it is enough."""
    following = Following(found.path)
    while True:
        yield from following.poll()
        yield None
        time.sleep(FOLLOW_POLL_S)


def is_end(event: Event, was_ended: bool) -> bool:
    """Whether work or a follow-up has ended with the event, when it had or had not before."""
    return isinstance(event, (End, Answer)) or (was_ended and isinstance(event, Delivery))


def sessions_in_use(state: State) -> set[str]:
    """Sessions of runs that are not settled, and those that do not say whose they are."""
    unsettled = set()
    if state.has_runs:
        unsettled = {row.run_id for row in state.store.list_runs() if row.status not in SETTLED}
    found = [listed(each) for each in list_files(state.home)]
    return {each.session_id for each in found if each.problem is not None or each.run_id in unsettled}


def collect_sessions(state: State, limits: AgentSessions, *, dry_run: bool = False) -> Collected:
    """Keep the sessions within their bounds: those written longest ago go, never one of a run that may go on."""
    total = sum(each.size for each in list_files(state.home))
    in_use = sessions_in_use(state) if total > limits.max_bytes else set()
    return collect(state.home, limits, in_use, dry_run=dry_run)


def collect_after_run(state: State, limits: AgentSessions) -> str | None:
    """The same when a run has ended here, which it has whatever comes of this: what went wrong, if anything did."""
    try:
        kept = collect_sessions(state, limits).kept
    except PerdureError as error:
        return f"Sessions were not collected: {error}"
    return " ".join(kept) or None
