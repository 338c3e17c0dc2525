"""Refused requests become future permissions, decided by a person and never by the agent."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.tools.approvals import ApprovalStore
from perdure.disk.home import StateHome

Program = Callable[..., Any]


@pytest.fixture
def workspace(repository: Path) -> str:
    """The workspace's folder, with one refused request."""
    state = StateHome(str(repository.parent / "state"))
    folder = state.workspace(str(repository))
    ApprovalStore(folder).record("fixer", "tool.call:shell", "s1")
    return folder


def test_a_refused_request_is_listed_and_allowed(perdure: Program, repository: Path, workspace: str) -> None:
    shown = perdure("permissions", "list", cwd=repository).succeeded().out
    assert "Future permission: shell  for fixer" in shown
    approval = shown.split()[0]
    assert "may use shell" in perdure("permissions", "allow", approval, cwd=repository).succeeded().out
    found = perdure("permissions", "list", "--json", cwd=repository).succeeded().json
    assert found["requests"] == []
    assert [(each["id"], each["lifetime"]) for each in found["grants"]] == [("grant_1", "persistent")]
    perdure("permissions", "deny", "grant_1", cwd=repository).succeeded()
    assert "nothing is granted" in perdure("permissions", "list", cwd=repository).succeeded().out


def test_a_refused_request_can_be_denied_from_a_subfolder(perdure: Program, repository: Path, workspace: str) -> None:
    (repository / "src").mkdir()
    [request] = ApprovalStore(workspace).load()
    perdure("permissions", "deny", request.approval_id[:13], cwd=repository / "src").succeeded()
    assert ApprovalStore(workspace).load() == []


def test_an_unknown_request_is_no_such_thing(perdure: Program, repository: Path) -> None:
    assert perdure("permissions", "allow", "approval_none", cwd=repository).code == 4


def test_a_step_of_a_run_cannot_decide(
    perdure: Program, repository: Path, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_RUN_ID", "01M8C0RUNDRECT0RYTEST00000")
    done = perdure("permissions", "allow", "approval_", cwd=repository)
    assert done.code == 2
    assert "cannot decide" in done.err
    assert not os.path.exists(os.path.join(workspace, "agent-grants.json"))


def test_a_list_changes_nothing(perdure: Program, repository: Path) -> None:
    assert json.loads(perdure("permissions", "list", "--json", cwd=repository).succeeded().out) == {
        "requests": [],
        "grants": [],
    }
    assert not (repository.parent / "state").exists()
