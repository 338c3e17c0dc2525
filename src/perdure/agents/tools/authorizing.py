"""Asking for permission before a tool runs: the decision, the person, the grants that come of it. It fails closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from perdure.agents.tools.approvals import ApprovalStore
from perdure.agents.tools.grants import GrantStore, Once, Session
from perdure.agents.tools.permissions import (
    Allow,
    Decision,
    Deny,
    PermissionRequest,
    Policy,
    decide,
    permission_question,
    verdict_of,
)
from perdure.base.errors import PerdureError
from perdure.base.ids import now_ms

if TYPE_CHECKING:
    from perdure.agents.tools.tool import Tool
    from perdure.kernel.context import OperationContext

_SUMMARY = 300


class Permissions(msgspec.Struct, frozen=True):
    """What an agent may do in one conversation. `folder` is the workspace's folder of the state home, "" for none: then there are
    no grants, and refused requests are not kept."""

    policy: Policy = Policy()
    agent_id: str = "agent"
    session_id: str = ""
    folder: str = ""


async def authorize(op: OperationContext, permissions: Permissions, tool: Tool, arguments: str) -> str | None:
    """None when the call may run, else why not, in words for the model. May wait for a person."""
    summary = " ".join(arguments.split())
    request = PermissionRequest(
        agent_id=permissions.agent_id,
        tool=tool.name,
        permission=tool.permission,
        invocation_id=f"{op.run_id}/{op.step_id}/{op.attempt}",
        session_id=permissions.session_id,
        summary=summary if len(summary) <= _SUMMARY else f"{summary[:_SUMMARY]}…",
    )
    try:
        decision = settle(permissions, request)
        if isinstance(decision, Allow):
            return None
        if isinstance(decision, Deny):
            return decision.reason
        answer = await op.ask("approval", permission_question(request))
        choice, reason = verdict_of(answer)
        if choice == "deny":
            return f"A person refused this call{f': {reason}' if reason else '.'} Do not try it again in another way."
        _grant(permissions, request, choice)
    except PerdureError as error:
        if error.code in ("grants_invalid", "locked", "unsafe_path", "environment", "disk_full", "approvals_invalid"):
            return error.message
        raise
    return None


def settle(permissions: Permissions, request: PermissionRequest) -> Decision:
    """The decision, with a grant for one call claimed, and a refused request kept for a person.

    Raises `GrantsInvalid`, `Locked`."""
    if not permissions.folder:
        return decide(permissions.policy, [], request, now_ms())
    store = GrantStore(permissions.folder)
    while True:
        decision = decide(permissions.policy, store.load(), request, now_ms())
        # Another call may have claimed the grant since it was read.
        if not isinstance(decision, Allow) or decision.grant is None:
            break
        if store.claim(decision.grant, request.invocation_id):
            return decision
    if isinstance(decision, Deny) and decision.can_be_granted:
        ApprovalStore(permissions.folder).record(request.agent_id, request.capability, request.session_id)
    return decision


def _grant(permissions: Permissions, request: PermissionRequest, choice: str) -> None:
    """Keep what a person allowed; the same answer, replayed after a crash, changes nothing."""
    if not permissions.folder:
        return
    store = GrantStore(permissions.folder)
    if choice == "session":
        store.issue(request.agent_id, request.capability, Session(request.session_id), provenance="human")
    else:
        store.issue(
            request.agent_id, request.capability, Once(), provenance="human", invocation_id=request.invocation_id
        )
