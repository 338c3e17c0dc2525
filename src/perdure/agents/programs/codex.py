"""The backend `codex`: the program `codex exec`, one call a turn, by its JSON lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from perdure.agents.backend import AgentRequest
from perdure.agents.programs.sessions import Plan
from perdure.agents.programs.telling import Telling, summary
from perdure.agents.programs.turn import ProgramBackend, Said, inside, level_of

_SANDBOXES = {"read-only": "read-only", "read-write": "workspace-write", "full": "danger-full-access"}
_UNKNOWN_SESSION = re.compile(
    r"no rollout found|thread/resume failed|(?:thread|session|conversation) .*not found", re.IGNORECASE
)
_TOKENS = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "cache_read_tokens",
    "cache_write_input_tokens": "cache_write_tokens",
    "output_tokens": "output_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}


def codex(command: Sequence[str]) -> ProgramBackend:
    """The backend; an empty command is the program's own name."""
    return ProgramBackend(Codex(command or ("codex",)))


class Codex:
    """How Codex is called."""

    name = "codex"
    title = "Codex"
    install = "Install it with `npm install -g @openai/codex`, or name it with --command."

    def __init__(self, command: Sequence[str]) -> None:
        self.command: Sequence[str] = list(command)

    def check(self, request: AgentRequest) -> None:
        """Nothing: its sandbox has a mode for each level."""

    def new_session_id(self) -> str:
        """Codex names its sessions itself."""
        return ""

    def argv(self, request: AgentRequest, plan: Plan, new_id: str) -> list[str]:
        argv = [*self.command, "exec", "--json", "--skip-git-repo-check", "-C", request.cwd]
        argv += ["-s", _SANDBOXES[level_of(request)]]
        if request.model:
            argv += ["-m", request.model]
        if request.reasoning_effort:
            argv += ["-c", f"model_reasoning_effort={request.reasoning_effort}"]
        return [*argv, *(("resume", plan.session_id) if plan.session_id else ()), "-"]

    def reader(self, request: AgentRequest, plan: Plan, telling: Telling) -> CodexReader:
        return CodexReader(request, plan, telling)


class CodexReader:
    """Reads `thread.*`, `turn.*`, `item.*` and `error`."""

    def __init__(self, request: AgentRequest, plan: Plan, telling: Telling) -> None:
        # The thread's name comes from Codex alone: without it there is nothing to go on in.
        self.said = Said(session_id=plan.session_id, model=request.model)
        self._request = request
        self._plan = plan
        self._telling = telling
        self._has_begun = False
        self._error = ""

    def take(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        item = record.get("item")
        if kind == "thread.started" and isinstance(record.get("thread_id"), str):
            self._has_begun = True
            self.said.session_id = record["thread_id"]
            self._telling.opened(self.said.session_id, self._plan.way)
        elif kind == "item.started" and isinstance(item, dict):
            self._started(item)
        elif kind == "item.completed" and isinstance(item, dict):
            self._completed(item)
        elif kind == "turn.completed":
            self.said.is_complete = True
            self._count(record.get("usage"))
        elif kind == "turn.failed":
            error = record.get("error")
            self._error = _text(error.get("message") if isinstance(error, dict) else None) or self._error
            self.said.failure = self._error or "the turn failed"
        elif kind == "error":
            # It tries again by itself, and says so in this way too: only how the turn ends counts.
            self._error = _text(record.get("message"))
            self._telling.said(self._error, "warning")

    def ended(self, exit_code: int | None, errors: str) -> None:
        said = self.said
        if said.is_complete or said.failure:
            return
        if exit_code != 0 and not self._has_begun and _UNKNOWN_SESSION.search(errors):
            said.is_lost, said.failure = True, errors
        elif self._error and exit_code is not None:
            said.failure = self._error

    def _started(self, item: dict[str, Any]) -> None:
        kind = item.get("type")
        if kind == "command_execution":
            self._telling.called("shell", item.get("command"))
        elif kind == "mcp_tool_call":
            name = f"{_text(item.get('server'))}.{_text(item.get('tool'))}"
            self._telling.called(name, summary(item.get("arguments")))
        elif kind == "web_search":
            self._telling.called("web_search", item.get("query"))

    def _completed(self, item: dict[str, Any]) -> None:
        kind, text = item.get("type"), _text(item.get("text"))
        if kind == "agent_message":
            self.said.text = text
            self._telling.said(text)
        elif kind == "reasoning":
            self._telling.said(text, "summary")
        elif kind == "error":
            self._telling.said(_text(item.get("message")), "warning")
        elif kind == "file_change":
            self._changed(item)

    def _changed(self, item: dict[str, Any]) -> None:
        changes = item.get("changes")
        names = [
            name
            for each in (changes if isinstance(changes, list) else [])
            if isinstance(each, dict) and (name := inside(self._request.cwd, each.get("path")))
        ]
        self._telling.called("edit", " ".join(names))
        if item.get("status") != "failed":
            self.said.files |= dict.fromkeys(names)

    def _count(self, usage: object) -> None:
        """Codex counts a whole thread: a turn's own part is what came on top."""
        if not isinstance(usage, dict):
            return
        total = {name: usage[key] for key, name in _TOKENS.items() if type(usage.get(key)) is int and usage[key] >= 0}
        before = self._plan.total
        if any(total.get(name, 0) < count for name, count in before.items()):
            before = {}
        self.said.total = dict(total)
        self.said.usage = {name: round(count - before.get(name, 0)) for name, count in total.items()} or None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
