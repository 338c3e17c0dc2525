"""Permissions: no is the default, a yes is a person's, and a file that cannot be trusted allows nothing."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.agents.tools.approvals import ApprovalsInvalid, ApprovalStore, approve
from perdure.agents.tools.authorizing import Permissions, settle
from perdure.agents.tools.grants import GrantsInvalid, GrantStore, Once, Persistent, SavedGrant, Session
from perdure.agents.tools.permissions import (
    Allow,
    Ask,
    Deny,
    PermissionRequest,
    Policy,
    agent_id,
    decide,
    permission_question,
    verdict_of,
)
from perdure.base.errors import NotFound
from perdure.disk.lock import Locked
from perdure.kernel.question import Answer

SHELL = PermissionRequest("fixer", "shell", "execute", "run/step/1", "s1")
CAPABILITY = SHELL.capability


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspaces" / "0123456789ab"


@pytest.fixture
def grants(folder: Path) -> GrantStore:
    return GrantStore(str(folder))


def of(tool: str, kind: Any, **more: Any) -> PermissionRequest:
    return msgspec.structs.replace(SHELL, tool=tool, permission=kind, **more)


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (Policy("read-only"), {"read"}),
        (Policy("read-write"), {"read", "write"}),
        (Policy("read-write", is_confined=True), {"read", "write", "execute"}),
        (Policy("read-only", is_confined=True), {"read"}),
        (Policy("read-only", allow_network=True), {"read", "network"}),
        (Policy("full"), {"read", "write", "execute", "network"}),
    ],
)
def test_a_level_allows_its_kinds_and_nothing_unclassified(policy: Policy, allowed: set[str]) -> None:
    kinds = ("read", "write", "execute", "network", None)
    found = {kind for kind in kinds if isinstance(decide(policy, [], of("t", kind), 0), Allow)}
    assert found == allowed


def test_what_is_not_settled_is_asked_or_refused_and_offered(grants: GrantStore) -> None:
    assert decide(Policy(unresolved="ask"), [], SHELL, 0) == Ask()
    refused = decide(Policy(), [], SHELL, 0)
    assert isinstance(refused, Deny)
    assert refused.can_be_granted


def test_a_rule_beats_a_grant_a_grant_beats_a_mode_and_a_mode_beats_the_level(grants: GrantStore) -> None:
    denied = Policy("full", modes={"execute": "deny"})
    assert isinstance(decide(denied, [], SHELL, 0), Deny)
    assert decide(Policy("full", modes={"execute": "ask"}, unresolved="ask"), [], SHELL, 0) == Ask()
    assert decide(Policy(modes={"unclassified": "allow"}), [], of("t", None), 0) == Allow()
    grant = grants.issue("fixer", CAPABILITY, Persistent(), provenance="human")
    assert decide(denied, grants.load(), SHELL, 0) == Allow(grant)
    ruled = decide(Policy("full", deny=("shell",)), grants.load(), SHELL, 0)
    assert isinstance(ruled, Deny)
    assert not ruled.can_be_granted


def test_a_grant_is_for_its_agent_tool_and_session_and_for_its_time(grants: GrantStore) -> None:
    grants.issue("fixer", CAPABILITY, Session("s1"), provenance="human")
    [saved] = grants.load()
    late = SavedGrant(msgspec.structs.replace(saved.grant, expires_at=50), False)
    others = [{"session_id": "s2"}, {"agent_id": "other"}, {"tool": "fetch"}]
    assert isinstance(decide(Policy(), [saved], SHELL, 0), Allow)
    assert isinstance(decide(Policy(), [late], SHELL, 49), Allow)
    assert isinstance(decide(Policy(), [late], SHELL, 50), Deny)
    for each in others:
        assert isinstance(decide(Policy(), [saved], msgspec.structs.replace(SHELL, **each), 0), Deny)


def test_a_durable_grant_is_used_before_one_for_a_single_call(grants: GrantStore) -> None:
    grants.issue("fixer", CAPABILITY, Once(), provenance="human")
    grants.issue("fixer", CAPABILITY, Session("s1"), provenance="human")
    lasting = grants.issue("fixer", CAPABILITY, Persistent(), provenance="human")
    assert decide(Policy(), grants.load(), SHELL, 0) == Allow(lasting)


def test_a_grant_for_one_call_is_claimed_once_and_stays_with_its_call(grants: GrantStore, folder: Path) -> None:
    grant = grants.issue("fixer", CAPABILITY, Once(), provenance="human")
    permissions = Permissions(folder=str(folder), agent_id="fixer", session_id="s1")
    assert settle(permissions, SHELL) == Allow(grant)
    assert settle(permissions, SHELL) == Allow(grant)
    assert isinstance(settle(permissions, msgspec.structs.replace(SHELL, invocation_id="run/step/2")), Deny)
    assert not grants.claim(grant, "run/step/2")


def test_of_many_processes_one_gets_the_claim(grants: GrantStore, folder: Path) -> None:
    grants.issue("fixer", CAPABILITY, Once(), provenance="human")
    code = (
        "import sys; from perdure.agents.tools.grants import GrantStore; store = GrantStore(sys.argv[1]); "
        "print(store.claim(store.load()[0].grant, sys.argv[2]))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(folder), f"call-{number}"], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    assert sorted(each.communicate()[0].strip() for each in started) == ["False", "False", "False", "True"]


def test_the_file_of_grants_has_its_documented_form(grants: GrantStore, folder: Path) -> None:
    grants.issue("fixer", CAPABILITY, Session("s1"), provenance="human")
    grants.issue("fixer", CAPABILITY, Once(), provenance="system", invocation_id="i")
    value = json.loads((folder / "agent-grants.json").read_text())
    times = [each["grant"].pop("issuedAt") for each in value["grants"]]
    claimed_at = value["grants"][1]["claim"].pop("claimedAt")
    base = {"address": "fixer", "capability": "tool.call:shell", "revision": 1}
    assert value == {
        "format": "agent-grants/1",
        "sequence": 2,
        "grants": [
            {
                "grant": {
                    "id": "grant_1",
                    "lifetime": {"kind": "session", "scopeId": "s1"},
                    "provenance": "human",
                    **base,
                },
                "revoked": False,
            },
            {
                "grant": {"id": "grant_2", "lifetime": {"kind": "once"}, "provenance": "system", **base},
                "revoked": False,
                "claim": {"invocationId": "i"},
            },
        ],
    }
    assert all(isinstance(each, int) and each > 1_700_000_000_000 for each in [*times, claimed_at])
    assert stat.S_IMODE((folder / "agent-grants.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


_GRANT = {
    "id": "grant_1", "address": "a", "capability": "tool.call:shell", "lifetime": {"kind": "persistent"},
    "provenance": "human", "issuedAt": 1, "revision": 1,
}  # fmt: skip


def _file(**changes: Any) -> str:
    return json.dumps(
        {"format": "agent-grants/1", "sequence": 1, "grants": [{"grant": _GRANT | changes, "revoked": False}]}
    )


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "{}", "\ufeff{}",
        '{"format": "agent-grants/2", "sequence": 0, "grants": []}',
        '{"format": "agent-grants/1", "sequence": 0, "grants": [], "more": 1}',
        '{"format": "agent-grants/1", "sequence": -1, "sequence": 0, "grants": []}',
        '{"format": "agent-grants/1", "sequence": "0", "grants": []}',
        _file(id="grant_2"), _file(id="1"), _file(id="grant_01"), _file(address=""), _file(revision=0), _file(extra=1),
        _file(lifetime={"kind": "session"}), _file(lifetime="persistent"), _file(provenance="me"), _file(issuedAt="now"),
        _file()[:-2] + ', {"grant": ' + json.dumps(_GRANT) + ', "revoked": false}]}',
        _file().replace('"revoked": false', '"revoked": false, "claim": {"invocationId": "i", "claimedAt": 1}'),
    ],
)  # fmt: skip
def test_any_other_file_of_grants_refuses_everything_and_is_left_alone(
    grants: GrantStore, folder: Path, content: str
) -> None:
    folder.mkdir(parents=True)
    (folder / "agent-grants.json").write_text(content)
    with pytest.raises(GrantsInvalid, match=r"^Saved agent grants are invalid; refusing authorization\.$"):
        settle(Permissions(Policy("full"), folder=str(folder)), SHELL)
    with pytest.raises(GrantsInvalid):
        grants.issue("fixer", CAPABILITY, Persistent(), provenance="human")
    assert (folder / "agent-grants.json").read_text() == content


def test_a_valid_file_by_hand_is_read(grants: GrantStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "agent-grants.json").write_text(_file())
    assert [each.grant.id for each in grants.load()] == ["grant_1"]


def test_a_link_in_the_place_of_the_grants_is_not_followed(grants: GrantStore, folder: Path, tmp_path: Path) -> None:
    folder.mkdir(parents=True)
    (tmp_path / "mine").write_text(_file())
    (folder / "agent-grants.json").symlink_to(tmp_path / "mine")
    with pytest.raises(GrantsInvalid):
        grants.load()


def test_the_lock_of_a_dead_process_is_never_taken_over(
    grants: GrantStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.agents.tools.grants._LOCK_LIMIT_S", 0.05)
    folder.mkdir(parents=True)
    (folder / "agent-grants.json.lock").write_text("999999")
    with pytest.raises(Locked, match=r"refusing authorization\. If no Perdure process .* remove the abandoned lock"):
        grants.issue("fixer", CAPABILITY, Persistent(), provenance="human")
    assert (folder / "agent-grants.json.lock").exists()


def test_a_revoked_grant_is_dead_and_stays_in_the_file(grants: GrantStore) -> None:
    grant = grants.issue("fixer", CAPABILITY, Persistent(), provenance="human")
    assert grants.revoke(grant.id).revision == 2
    assert isinstance(decide(Policy(), grants.load(), SHELL, 0), Deny)
    with pytest.raises(NotFound):
        grants.revoke("grant_9")
    assert grants.issue("fixer", CAPABILITY, Persistent(), provenance="human").id == "grant_2"


def test_a_refused_request_is_kept_once_and_without_what_the_tool_was_to_do(folder: Path) -> None:
    permissions = Permissions(folder=str(folder), agent_id="fixer", session_id="s1")
    request = msgspec.structs.replace(SHELL, summary="rm -rf secret-folder")
    settle(permissions, request)
    settle(permissions, msgspec.structs.replace(request, invocation_id="other"))
    value = json.loads((folder / "agent-approvals.json").read_text())
    [only] = value["requests"]
    assert only.pop("approvalId").startswith("approval_")
    assert only == {"agentId": "fixer", "sessionId": "s1", "source": "tool.call:shell"}
    assert value["sessions"] == ["s1"]
    assert "secret-folder" not in (folder / "agent-approvals.json").read_text()


def test_approving_gives_a_lasting_grant_and_takes_the_request_out(folder: Path) -> None:
    permissions = Permissions(folder=str(folder), agent_id="fixer", session_id="s1")
    assert isinstance(settle(permissions, SHELL), Deny)
    [request] = ApprovalStore(str(folder)).load()
    grant = approve(str(folder), request.approval_id[:14])
    assert ApprovalStore(str(folder)).load() == []
    assert settle(permissions, msgspec.structs.replace(SHELL, session_id="later")) == Allow(grant)
    with pytest.raises(NotFound):
        approve(str(folder), request.approval_id)


def test_an_unreadable_file_of_requests_is_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "agent-approvals.json").write_text('{"version": 2}')
    with pytest.raises(ApprovalsInvalid):
        ApprovalStore(str(folder)).record("a", "b", "c")
    assert (folder / "agent-approvals.json").read_text() == '{"version": 2}'


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        (Answer("selected", ["once"]), "once"),
        (Answer("selected", ["session"]), "session"),
        (Answer("selected", ["deny"]), "deny"),
        (Answer("selected", ["once"], by="auto"), "deny"),
        (Answer("selected", ["once"], by="default"), "deny"),
        (Answer("text", text="once"), "deny"),
        (Answer("yes"), "deny"),
        (Answer("timeout", by="nobody"), "deny"),
        (Answer("skipped"), "deny"),
    ],
)
def test_only_a_persons_choice_is_a_yes(answer: Answer, choice: str) -> None:
    assert verdict_of(answer)[0] == choice


def test_a_person_is_offered_three_choices() -> None:
    question = permission_question(SHELL)
    assert [each.label for each in question.options] == ["Approve once", "Allow for this session", "Deny"]
    assert question.default is None


def test_an_agent_without_a_name_is_known_by_what_it_is() -> None:
    assert agent_id("fixer", "p", None, None) == "fixer"
    assert agent_id(" ", "p", "", "m") == agent_id("", "p", None, "m")
    assert len({agent_id("", "p", None, "m"), agent_id("", "q", None, "m"), agent_id("", "p", "x", "m")}) == 3
    assert agent_id("", "p", None, "m") == "agent-45111f7c1527da43"
