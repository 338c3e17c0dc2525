"""What agents of a workspace may do in future runs: refused requests, grants, and a person's decisions on them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.agents.tools import approvals
from perdure.agents.tools.grants import GrantStore
from perdure.agents.tools.permissions import tool_of
from perdure.base.errors import Refused
from perdure.disk.home import StateHome, find_state_home


def list_permissions(given: str | None, environ: Mapping[str, str], folder: str) -> dict[str, Any]:
    """What was refused and can be allowed, and what is granted. Nothing is made or changed."""
    place = _place(find_state_home(given, environ), folder)
    requests = [
        {
            "approval_id": each.approval_id,
            "agent_id": each.agent_id,
            "tool": tool_of(each.source),
            "session_id": each.session_id,
        }
        for each in approvals.ApprovalStore(place).load()
    ]
    grants = [
        {
            "id": saved.grant.id,
            "agent_id": saved.grant.address,
            "tool": tool_of(saved.grant.capability),
            "lifetime": msgspec.to_builtins(saved.grant.lifetime)["kind"],
            "issued_at": saved.grant.issued_at,
            "revoked": saved.revoked,
            "used": saved.claim is not None,
        }
        for saved in GrantStore(place).load()
    ]
    return {"requests": requests, "grants": grants}


def allow(given: str | None, environ: Mapping[str, str], folder: str, wanted: str) -> dict[str, Any]:
    """Allow a refused request for future runs; the refused action itself is not done again."""
    grant = approvals.approve(_place_to_change(given, environ, folder), wanted)
    return {"id": grant.id, "agent_id": grant.address, "tool": tool_of(grant.capability)}


def deny(given: str | None, environ: Mapping[str, str], folder: str, wanted: str) -> dict[str, Any]:
    """Take a refused request out of the list, or a grant back when `wanted` is the id of one."""
    place = _place_to_change(given, environ, folder)
    if wanted.startswith("grant_"):
        grant = GrantStore(place).revoke(wanted)
        return {"id": grant.id, "agent_id": grant.address, "tool": tool_of(grant.capability)}
    request = approvals.ApprovalStore(place).remove(wanted)
    return {"id": request.approval_id, "agent_id": request.agent_id, "tool": tool_of(request.source)}


def _place_to_change(given: str | None, environ: Mapping[str, str], folder: str) -> str:
    """The workspace's folder. Refused to what an agent runs: it would grant to itself."""
    if environ.get("PERDURE_RUN_ID"):
        raise Refused("A step of a run cannot decide on permissions.", hint="Decide in a shell of your own.")
    home = find_state_home(given, environ)
    home.ensure()
    return _place(home, folder)


def _place(home: StateHome, folder: str) -> str:
    """The folder of the workspace: of the repository that the folder belongs to, else of the folder itself."""
    from perdure.git.repository import find_root

    return home.workspace(find_root(folder) or os.path.realpath(folder))
