"""Asking a question about a conversation that has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.sessions.listing import read_header
from perdure.base.errors import NotFound, Refused
from perdure.kernel.lifecycle import SETTLED
from perdure.llm import MODELS
from perdure.service.find import find_run
from perdure.service.running import execute, new_engine
from perdure.service.settings import common_layers

if TYPE_CHECKING:
    from perdure.agents.loop.follow_up import FollowUp
    from perdure.agents.sessions.events import Review
    from perdure.base.jsonvalue import JSON
    from perdure.service.sessions import FoundSession
    from perdure.service.state import State
    from perdure.store.records import RunRow


class NoFollowUp(Refused):
    """A session that nobody can go on in, or not yet."""

    code = "no_follow_up"


def follow_up_of(state: State, found: FoundSession, text: str, permission: str) -> FollowUp:
    """What the follow-up's run is told. Raises `NoFollowUp`, `UnreadableSession`, and what a missing key raises."""
    from perdure.agents.loop.follow_up import FollowUp
    from perdure.llm.registry import check_model_backend

    if not text.strip():
        raise Refused("The message is empty.")
    header = read_header(found.path)
    row = _row_of(state, header)
    if row is not None and row.status not in SETTLED:
        raise NoFollowUp(
            f"Run {row.run_id} of session {found.session_id} is {row.status}, so its agent may still be at work.",
            hint=f"`perdure steer {row.run_id} TEXT` reaches an agent at work.",
        )
    if header.backend not in MODELS or not header.model:
        raise NoFollowUp(f"Session {found.session_id} is of {header.backend}, which keeps its conversations by itself.")
    config = common_layers(state.home, os.getcwd())
    base_url = next((each.config.base_url for each in config if each.config.base_url), "")
    check_model_backend(header.backend, base_url=base_url, environ=os.environ, home=state.home)
    from perdure.agents.backend import AgentSettings

    cwd = _folder_of(row)
    return FollowUp(
        session_id=found.session_id,
        text=text,
        backend=header.backend,
        model=header.model,
        reasoning=header.reasoning or "",
        cwd=cwd,
        workspace=cwd,
        permission=permission,
        files_changed=bool(row is not None and cwd and _files_changed(row, cwd)),
        settings=AgentSettings(base_url),
    )


def _row_of(state: State, header: Review) -> RunRow | None:
    """The run that the session is of; None when it was removed."""
    if not header.run_id or not state.has_runs:
        return None
    try:
        return find_run(state, header.run_id)
    except NotFound:
        return None


def _folder_of(row: RunRow | None) -> str:
    """Where the work was done, if that is there; its worktree is gone when it has ended."""
    if row is None:
        return ""
    record = msgspec.json.decode(row.record)
    folder = record.get("working_directory") if isinstance(record, dict) else None
    return folder if isinstance(folder, str) and os.path.isdir(folder) else ""


def _files_changed(row: RunRow, cwd: str) -> bool:
    """Whether the folder holds something else than the branch that the run left; False where nothing tells."""
    from perdure.git.command import git
    from perdure.git.repository import find_repository
    from perdure.git.worktree import run_branch

    repository = find_repository(cwd)
    branch = run_branch(row.run_id)
    if repository is None or git(cwd, "rev-parse", "--verify", "--quiet", branch, check=False).code != 0:
        return False
    return git(cwd, "diff", "--quiet", branch, "--", check=False).code != 0


def send(state: State, asked: FollowUp, **attending: Any) -> Any:
    """Ask, and return the run's result; `attending` is as for `execute`."""
    from perdure.agents.loop.follow_up import FollowUpDefinition

    engine = new_engine(state, park=True)
    record: dict[str, JSON] = {"goal": asked.text[:500], "working_directory": asked.cwd}
    run_id = engine.submit(FollowUpDefinition(asked), record=record)
    row = state.store.find_run(run_id)
    assert row is not None
    return execute(state, row, **attending)
