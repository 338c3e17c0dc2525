"""Who may use which tool: a pure decision from a policy, the grants there are, and what is asked for.

The order: an exact deny rule; a live grant (persistent ones first, then the session's, then single ones); the mode of the
tool's kind; the level. What none of these settles is asked of a person, or refused when nobody is there. A tool that nobody has
classified is never allowed by a level, only by a grant or by the mode of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from perdure.agents.tools.grants import Grant, Persistent, SavedGrant, Session
from perdure.agents.tools.tool import Permission
from perdure.kernel.question import Answer, Option, Question

Level = Literal["read-only", "read-write", "full"]
Mode = Literal["allow", "ask", "deny"]
Kind = Literal["read", "write", "execute", "network", "unclassified"]

LEVELS: Mapping[Level, frozenset[Kind]] = {
    "read-only": frozenset({"read"}),
    "read-write": frozenset({"read", "write"}),
    "full": frozenset({"read", "write", "execute", "network"}),
}


class Policy(msgspec.Struct, frozen=True):
    """What an agent may do without a grant. `deny` holds names of tools, `modes` says otherwise than the level for a kind.

    `is_confined`: commands run in a sandbox that lets them write only in the worktree, so `read-write` allows them. `allow_network`:
    pages may be fetched at every level. `unresolved`: whether a person can be asked.
    """

    level: Level = "read-only"
    deny: tuple[str, ...] = ()
    modes: Mapping[Kind, Mode] = {}
    is_confined: bool = False
    allow_network: bool = False
    unresolved: Literal["ask", "refuse"] = "refuse"


class PermissionRequest(msgspec.Struct, frozen=True):
    """One call that wants to be allowed. `invocation_id` is the same when the call is tried again after a crash; `summary` says
    for a person what the call does."""

    agent_id: str
    tool: str
    permission: Permission | None
    invocation_id: str
    session_id: str
    summary: str = ""

    @property
    def capability(self) -> str:
        """What a grant for it names."""
        return capability_of(self.tool)


class Allow(msgspec.Struct, frozen=True):
    """It may run; by a grant, or by the policy (`grant` is None)."""

    grant: Grant | None = None


class Deny(msgspec.Struct, frozen=True):
    """It may not run, in words for the model. `can_be_granted`: a person may allow it for future runs."""

    reason: str
    can_be_granted: bool = False


class Ask(msgspec.Struct, frozen=True):
    """A person decides."""


Decision = Allow | Deny | Ask


def capability_of(tool: str) -> str:
    """The capability to call a tool."""
    return f"tool.call:{tool}"


def tool_of(capability: str) -> str:
    """The tool that a capability is for."""
    return capability.removeprefix("tool.call:")


def decide(policy: Policy, grants: Sequence[SavedGrant], request: PermissionRequest, now_ms: int) -> Decision:
    """What becomes of the request. The same again and again until something is claimed or changed."""
    if request.tool in policy.deny:
        return Deny(f"The tool {request.tool} is denied by a rule of this project.")
    grant = find_grant(grants, request, now_ms)
    if grant is not None:
        return Allow(grant)
    kind: Kind = request.permission or "unclassified"
    mode = policy.modes.get(kind)
    if mode == "allow":
        return Allow()
    if mode == "deny":
        return Deny(f"Tools that {_VERBS[kind]} are denied here.")
    if mode is None and kind in allowed_kinds(policy):
        return Allow()
    if policy.unresolved == "ask":
        return Ask()
    return Deny(
        f"The tool {request.tool} is not allowed at the level {policy.level}, and nobody is there to ask. "
        "The request was kept for a person to decide; go on without it.",
        can_be_granted=True,
    )


def allowed_kinds(policy: Policy) -> frozenset[Kind]:
    """What the level allows, and what makes harmless more of it."""
    kinds: set[Kind] = set(LEVELS[policy.level])
    if policy.is_confined and policy.level == "read-write":
        kinds.add("execute")
    if policy.allow_network:
        kinds.add("network")
    return frozenset(kinds)


def find_grant(grants: Sequence[SavedGrant], request: PermissionRequest, now_ms: int) -> Grant | None:
    """The strongest live grant for the request; a single one that another call has claimed is dead."""
    live = [each.grant for each in grants if _is_live(each, request, now_ms)]
    return min(live, key=_strength, default=None)


def _is_live(saved: SavedGrant, request: PermissionRequest, now_ms: int) -> bool:
    grant = saved.grant
    if saved.revoked or (grant.expires_at is not None and grant.expires_at <= now_ms):
        return False
    if (grant.address, grant.capability) != (request.agent_id, request.capability):
        return False
    if isinstance(grant.lifetime, Session) and grant.lifetime.scope_id != request.session_id:
        return False
    return saved.claim is None or saved.claim.invocation_id == request.invocation_id


def _strength(grant: Grant) -> int:
    return 0 if isinstance(grant.lifetime, Persistent) else 1 if isinstance(grant.lifetime, Session) else 2


_VERBS: Mapping[Kind, str] = {
    "read": "read",
    "write": "write",
    "execute": "run commands",
    "network": "use the network",
    "unclassified": "nobody has classified",
}


def permission_question(request: PermissionRequest) -> Question:
    """What a person is asked, while the turn waits."""
    about = f": {request.summary}" if request.summary else ""
    return Question(
        text=f"Waiting for approval. Agent {request.agent_id} wants to use {request.tool}{about}",
        type="multiple_choice",
        options=[
            Option("once", "Approve once"),
            Option("session", "Allow for this session"),
            Option("deny", "Deny"),
        ],
        allow_freeform=True,
        metadata={"kind": "permission", "agent_id": request.agent_id, "tool": request.tool},
    )


def verdict_of(answer: Answer) -> tuple[Literal["once", "session", "deny"], str]:
    """What a person's answer allows, and the reason that was given. Only a choice of a person is a yes: silence, an answer that a
    program gave, and any other text are a no."""
    if answer.kind == "selected" and answer.by not in ("auto", "default", "nobody"):
        if answer.selected == ["once"]:
            return "once", ""
        if answer.selected == ["session"]:
            return "session", ""
    return "deny", answer.text or ""


def agent_id(name: str, prompt: str, provider: str | None, model: str | None) -> str:
    """The id under which grants are kept: the agent's name, else a digest of what it is. Another prompt, provider or model is
    another agent, whose grants are asked for anew."""
    if name.strip():
        return name
    from hashlib import sha256

    text = msgspec.json.encode([prompt, provider or None, model or None])
    return f"agent-{sha256(text).hexdigest()[:16]}"
