"""What a turn of a program tells while it goes on: events, few and short, so that a person sees how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from perdure.agents.backend import AgentContext, AgentRequest
    from perdure.agents.programs.sessions import Way

# Of one text, and of one turn.
MAX_TEXT = 4_000
MAX_MESSAGES = 500
_MAX_ABOUT = 200
Kind = Literal["text", "summary", "warning"]


class Telling:
    """Writes the events of one turn. Lone surrogates are replaced, since no file could hold them."""

    def __init__(self, request: AgentRequest, turn: AgentContext, backend: str) -> None:
        self.session_id = ""
        self._op = turn.op
        self._about: dict[str, Any] = {"node_id": request.node_id, "backend": backend}
        self._count = 0

    def opened(self, session_id: str, way: Way) -> None:
        """The program works in this session; said once for each."""
        if session_id and session_id != self.session_id:
            self.session_id = session_id
            self._emit("agent.session.opened", session_id=session_id, way=way)

    def lost(self, session_id: str, message: str) -> None:
        """The program does not know the session any more, so the conversation begins anew."""
        self._emit("agent.session.lost", session_id=session_id, message=message[:MAX_TEXT])

    def said(self, text: str, kind: Kind = "text") -> None:
        """A whole message, a public summary of reasoning, or a warning of the program."""
        text = text.strip()
        if text and self._may_tell():
            shown = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} [...]"
            self._emit("agent.message", session_id=self.session_id, kind=kind, text=shown)

    def called(self, tool: str, about: object = "") -> None:
        """The agent uses one of its tools; `about` says on what, in one line."""
        if self._may_tell():
            line = " ".join(about.split()) if isinstance(about, str) else ""
            self._emit("agent.message", session_id=self.session_id, kind="tool", tool=tool, text=line[:_MAX_ABOUT])

    def refused(self, tool: str, about: object, level: str) -> None:
        """The agent was not allowed to do something."""
        line = " ".join(about.split()) if isinstance(about, str) else ""
        self._emit("agent.permission.refused", tool=tool, text=line[:_MAX_ABOUT], permission=level)

    def _may_tell(self) -> bool:
        self._count += 1
        if self._count == MAX_MESSAGES + 1:
            text = f"[more than {MAX_MESSAGES} messages: the rest is not shown]"
            self._emit("agent.message", session_id=self.session_id, kind="warning", text=text)
        return self._count <= MAX_MESSAGES

    def _emit(self, event: str, **properties: str) -> None:
        clean = {name: value.encode("utf-8", "replace").decode() for name, value in properties.items()}
        self._op.emit(event, self._about | clean, again=True)


def summary(arguments: object) -> str:
    """The one argument of a tool call that tells a person most."""
    if not isinstance(arguments, dict):
        return ""
    for name in ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt"):
        found = arguments.get(name)
        if isinstance(found, str) and found:
            return found
    return ""
