"""The backend `claude-code`: the program `claude`, one call a turn, by its stream of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from perdure.agents.answer import usage_of
from perdure.agents.backend import AgentRequest, BackendError
from perdure.agents.programs.sessions import Plan
from perdure.agents.programs.telling import Telling, summary
from perdure.agents.programs.turn import ProgramBackend, Said, inside, level_of

_MODES = {"read-only": "plan", "read-write": "acceptEdits", "full": "bypassPermissions"}
_EDITS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
# The program itself speaks, not a model.
_NOBODY = "<synthetic>"
_UNKNOWN_SESSION = "No conversation found"
_TRANSIENT = (408, 429, 500, 502, 503, 504, 529)


def claude_code(command: Sequence[str]) -> ProgramBackend:
    """The backend; an empty command is the program's own name."""
    return ProgramBackend(ClaudeCode(command or ("claude",)))


class ClaudeCode:
    """How Claude Code is called."""

    name = "claude-code"
    title = "Claude Code"
    install = "Install it with `npm install -g @anthropic-ai/claude-code`, or name it with --command."

    def __init__(self, command: Sequence[str]) -> None:
        self.command: Sequence[str] = list(command)

    def check(self, request: AgentRequest) -> None:
        """Root has no full permission, unless the person says that the machine is a sandbox: that is the program's own rule."""
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        if level_of(request) == "full" and is_root and request.env.get("IS_SANDBOX") != "1":
            raise BackendError(
                "Claude Code refuses full permission to root. Use the permission read-write, run as another user, or, when this machine "
                'is a sandbox that may be lost, say so: [sandbox.env] IS_SANDBOX = "1".'
            )

    def new_session_id(self) -> str:
        """Claude Code takes the id of a new session, so it is known before there is one."""
        from uuid import uuid4

        return str(uuid4())

    def argv(self, request: AgentRequest, plan: Plan, new_id: str) -> list[str]:
        argv = [*self.command, "-p", "--output-format", "stream-json", "--verbose", "--input-format", "text"]
        argv += ["--permission-mode", _MODES[level_of(request)]]
        if request.model:
            argv += ["--model", request.model]
        if request.reasoning_effort:
            argv += ["--effort", request.reasoning_effort]
        return [*argv, *(("--resume", plan.session_id) if plan.session_id else ("--session-id", new_id))]

    def reader(self, request: AgentRequest, plan: Plan, telling: Telling) -> ClaudeReader:
        return ClaudeReader(request, plan, telling)


class ClaudeReader:
    """Reads `system`, `assistant`, `user` and `result`."""

    def __init__(self, request: AgentRequest, plan: Plan, telling: Telling) -> None:
        self.said = Said(session_id=plan.session_id)
        self._request = request
        self._plan = plan
        self._telling = telling
        self._edits: dict[str, str] = {}

    def take(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        if kind == "system" and record.get("subtype") == "init":
            self._open(record)
        elif kind in ("assistant", "user"):
            message = record.get("message")
            content = message.get("content") if isinstance(message, dict) else None
            for block in content if isinstance(content, list) else []:
                if isinstance(block, dict):
                    self._block(block, is_sub_agent=record.get("parent_tool_use_id") is not None)
            model = message.get("model") if isinstance(message, dict) else None
            if kind == "assistant" and isinstance(model, str) and model != _NOBODY:
                self.said.model = model
        elif kind == "result":
            self._result(record)

    def ended(self, exit_code: int | None, errors: str) -> None:
        if _UNKNOWN_SESSION in errors and not self.said.is_complete:
            self.said.is_lost, self.said.failure = True, errors

    def _open(self, record: dict[str, Any]) -> None:
        found = record.get("session_id")
        if isinstance(found, str):
            self.said.session_id = found
            self._telling.opened(found, self._plan.way)

    def _block(self, block: dict[str, Any], *, is_sub_agent: bool) -> None:
        kind = block.get("type")
        if kind == "text" and isinstance(block.get("text"), str):
            if not is_sub_agent:
                self.said.text = block["text"]
                self._telling.said(block["text"])
        elif kind == "tool_use":
            arguments = block.get("input")
            self._telling.called(str(block.get("name")), summary(arguments))
            if block.get("name") in _EDITS and isinstance(arguments, dict):
                path = arguments.get("file_path") or arguments.get("notebook_path")
                self._edits[str(block.get("id"))] = inside(self._request.cwd, path)
        elif kind == "tool_result" and block.get("is_error") is not True:
            edited = self._edits.pop(str(block.get("tool_use_id")), "")
            if edited:
                self.said.files[edited] = None

    def _result(self, record: dict[str, Any]) -> None:
        said = self.said
        said.usage = usage_of(record)
        for denial in _list(record.get("permission_denials")):
            about = summary(denial.get("tool_input"))
            self._telling.refused(str(denial.get("tool_name")), about, level_of(self._request))
        text = record.get("result")
        if record.get("is_error") is False and record.get("subtype") == "success":
            said.is_complete = True
            if isinstance(text, str) and text:
                said.text = text
            return
        errors = record.get("errors")
        told = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
        found = "; ".join(told) or (text if isinstance(text, str) else "") or str(record.get("subtype"))
        said.failure = found
        said.is_lost = _UNKNOWN_SESSION in found
        if record.get("api_error_status") in _TRANSIENT:
            said.failure_class, said.is_retryable = "transient_infra", True
        elif record.get("subtype") == "error_max_budget_usd":
            said.failure_class = "budget_exhausted"


def _list(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
