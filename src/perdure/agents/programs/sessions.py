"""Which of a program's sessions a turn goes on in, and with which words.

A program keeps its sessions in files of its own, and may write them late: a killed program's session can lack the last prompt. So the
short prompt is only for a session whose agent had begun to answer; else the task is said again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from perdure.agents.backend import AgentRequest
from perdure.base.jsonvalue import JSON

Way = Literal["new", "continued", "recovered"]

CONTINUE = (
    "Continue: your process was ended; go on from where you were."
    " Look at the files first: what you were doing last may be done, or not."
)
BEGUN = "This was begun before and was interrupted; some of it may be done already. Look at the files first."
_TASK = "What you were asked, should it have been lost:"


class Plan(msgspec.Struct, frozen=True):
    """What a program is told, and in which session; an empty `session_id` is a new one. `total` is what the session had used before
    this turn, of programs that count so."""

    prompt: str
    session_id: str
    way: Way
    total: dict[str, float] = {}


def plan_turn(
    request: AgentRequest,
    opened: Sequence[dict[str, JSON]],
    lost: Sequence[dict[str, JSON]],
    said: Sequence[dict[str, JSON]],
) -> Plan:
    """How to go on, from what earlier owners recorded of this very attempt: a session opened, one lost, something said by its agent."""
    session_id, total = _conversation(request.conversation)
    last = str(opened[-1].get("session_id") or "") if opened else ""
    gone = {each.get("session_id") for each in lost}
    if last and last not in gone:
        begun = any(each.get("session_id") == last and each.get("kind") != "warning" for each in said)
        prompt = CONTINUE if begun else f"{CONTINUE}\n\n{_TASK}\n\n{request.prompt}"
        return Plan(prompt, last, "recovered", total if last == session_id else {})
    if session_id and session_id not in gone:
        return Plan(request.prompt, session_id, "continued", total)
    return afresh(request)


def afresh(request: AgentRequest, lost: Plan | None = None) -> Plan:
    """A new session. In the place of a lost one that had been at work, it is told so."""
    was_at_work = lost is not None and lost.way == "recovered"
    return Plan(f"{BEGUN}\n\n{request.prompt}" if was_at_work else request.prompt, "", "new")


def conversation(session_id: str, total: dict[str, float] | None = None) -> JSON:
    """What a later turn needs to go on in a session; None when the program named none."""
    if not session_id:
        return None
    return {"session_id": session_id} | ({"total": dict(total)} if total else {})


def _conversation(value: JSON) -> tuple[str, dict[str, float]]:
    """The session of an earlier turn, and what it had used; of a conversation with another backend nothing is taken."""
    if not isinstance(value, dict) or not isinstance(value.get("session_id"), str):
        return "", {}
    total: Any = value.get("total")
    numbers = total if isinstance(total, dict) else {}
    return str(value["session_id"]), {name: each for name, each in numbers.items() if type(each) in (int, float)}
