"""What an agent asks of its client: permission, and files of the working folder; and what it tells of its turn."""

from __future__ import annotations

import os
import stat
from typing import Any

from perdure.agents.programs.acp.rpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from perdure.agents.programs.telling import Telling
from perdure.agents.programs.turn import Level, inside

MAX_FILE = 16 * 1024 * 1024
_READS = ("read", "search", "think")
_EDITS = ("edit", "delete", "move")
_ALLOWED: dict[str, tuple[str, ...]] = {
    "read-only": _READS,
    "read-write": (*_READS, *_EDITS),
    "full": (*_READS, *_EDITS, "execute", "fetch", "switch_mode", "other"),
}
_YES = ("allow_once", "allow_always")
_NO = ("reject_once", "reject_always")


def is_allowed(level: Level, call: dict[str, Any], cwd: str) -> bool:
    """Whether an agent of this level may make the tool call. Changes name their files and stay in the working folder, unless the level is
    full; a call of an unknown kind is of the kind `other`."""
    kind = str(call.get("kind") or "other")
    if level != "full" and kind in _EDITS:
        paths = paths_of(call)
        if not paths or not all(_is_inside(cwd, path) for path in paths):
            return False
    known = kind if kind in _ALLOWED["full"] else "other"
    return known in _ALLOWED.get(level, ())


def paths_of(call: dict[str, Any]) -> list[str]:
    """The files that a tool call names, as places and as changes."""
    found = [
        each.get("path")
        for part in ("locations", "content")
        for each in (call.get(part) if isinstance(call.get(part), list) else [])  # type: ignore[union-attr]
        if isinstance(each, dict) and (part == "locations" or each.get("type") == "diff")
    ]
    return list(dict.fromkeys(path for path in found if isinstance(path, str)))


def _is_inside(cwd: str, path: str) -> bool:
    """Whether a path, its links followed, lies in the folder."""
    root = os.path.realpath(cwd)
    return os.path.realpath(os.path.join(cwd, path)).startswith(root.rstrip(os.sep) + os.sep)


class Client:
    """Our side of one turn.

    `text` is the agent's last message, `files` what it changed. While `is_replaying`, the agent repeats an old conversation: nothing of
    that is told again."""

    def __init__(self, cwd: str, level: Level, telling: Telling) -> None:
        self.files: dict[str, None] = {}
        self.text = ""
        self.is_replaying = False
        self._cwd = cwd
        self._level = level
        self._telling = telling
        self._parts: list[str] = []
        self._calls: dict[str, dict[str, Any]] = {}

    # Requests

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "session/request_permission":
            return {"outcome": self._permission(params)}
        if method == "fs/read_text_file":
            return {"content": self._read(params)}
        if method == "fs/write_text_file":
            self._write(params)
            return None
        raise RpcError(METHOD_NOT_FOUND, f"{method} is not offered.")

    def _permission(self, params: dict[str, Any]) -> dict[str, Any]:
        given = params.get("toolCall")
        asked: dict[str, Any] = given if isinstance(given, dict) else {}
        call = self._known(asked)
        allowed = is_allowed(self._level, call, self._cwd)
        if not allowed:
            self._telling.refused(str(call.get("kind") or "other"), call.get("title"), self._level)
        options = params.get("options")
        for kind in _YES if allowed else _NO:
            for option in options if isinstance(options, list) else []:
                if isinstance(option, dict) and option.get("kind") == kind:
                    return {"outcome": "selected", "optionId": option.get("optionId")}
        return {"outcome": "cancelled"}

    def _read(self, params: dict[str, Any]) -> str:
        path = self._checked(params)
        try:
            with open(path, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise RpcError(INVALID_PARAMS, f"{path} is no file.")
                text = file.read(MAX_FILE + 1)
        except OSError as error:
            raise RpcError(INVALID_PARAMS, f"{path}: {error.strerror}") from error
        if len(text) > MAX_FILE:
            raise RpcError(INVALID_PARAMS, f"{path} has more than {MAX_FILE} bytes.")
        decoded = text.decode("utf-8", "replace")
        line, limit = params.get("line"), params.get("limit")
        if line is None and limit is None:
            return decoded
        begin = max(line - 1, 0) if isinstance(line, int) else 0
        lines = decoded.split("\n")[begin:]
        return "\n".join(lines[:limit] if isinstance(limit, int) else lines)

    def _write(self, params: dict[str, Any]) -> None:
        path = self._checked(params)
        content = params.get("content")
        if not isinstance(content, str):
            raise RpcError(INVALID_PARAMS, "The content is no text.")
        if self._level == "read-only":
            self._telling.refused("edit", path, self._level)
            raise RpcError(INVALID_PARAMS, "This agent may not change files.")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content.encode("utf-8", "replace"))
        except OSError as error:
            raise RpcError(INVALID_PARAMS, f"{path}: {error.strerror}") from error
        self.files[inside(os.path.realpath(self._cwd), path)] = None

    def _checked(self, params: dict[str, Any]) -> str:
        """The path of a request, in the working folder and nowhere else, whatever links say."""
        path = params.get("path")
        if not isinstance(path, str) or "\0" in path or not _is_inside(self._cwd, path):
            self._telling.refused("file", path, self._level)
            raise RpcError(INVALID_PARAMS, "Only files of the working folder are offered.")
        return os.path.realpath(os.path.join(self._cwd, path))

    # What the agent tells

    def hear(self, method: str, params: dict[str, Any]) -> None:
        update = params.get("update")
        if method != "session/update" or self.is_replaying or not isinstance(update, dict):
            return
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            content = update.get("content")
            if isinstance(content, dict) and isinstance(content.get("text"), str):
                self._parts.append(content["text"])
        elif kind == "tool_call":
            self.finish_message()
            self._called(update)
        elif kind == "tool_call_update":
            self._went_on(self._known(update))

    def finish_message(self) -> None:
        """The message that came in pieces is whole."""
        text = "".join(self._parts)
        self._parts = []
        if text.strip():
            self.text = text
            self._telling.said(text)

    def _called(self, call: dict[str, Any]) -> None:
        known = self._known(call)
        self._telling.called(str(known.get("kind") or "other"), known.get("title"))
        self._went_on(known)

    def _went_on(self, call: dict[str, Any]) -> None:
        if call.get("status") == "completed" and call.get("kind") in _EDITS:
            self.files |= {inside(self._cwd, path): None for path in paths_of(call)}

    def _known(self, update: dict[str, Any]) -> dict[str, Any]:
        """A tool call with what was said of it before: an update says only what is new."""
        known = self._calls.setdefault(str(update.get("toolCallId")), {})
        known.update({name: value for name, value in update.items() if value is not None})
        return known
