"""The session file of an agent: told what the log has, so that people can read the conversation while it goes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.agents.sessions.events import End, Review, attempt_event, message_event
from perdure.agents.sessions.reference import producer
from perdure.agents.sessions.writer import SessionWriter
from perdure.base.jsonvalue import digest
from perdure.disk.home import StateHome
from perdure.llm.protocol import DeltaKind, Message, ModelError, Tool

if TYPE_CHECKING:
    from perdure.agents.backend import AgentRequest
    from perdure.agents.loop.history import Attempt, TurnRecord
    from perdure.kernel.context import OperationContext


def session_id_of(op: OperationContext) -> str:
    """The same at every interpretation of one attempt of one step."""
    plain = "".join(each if (each.isalnum() and each.isascii()) or each in "_-" else "-" for each in op.path)
    mark = "" if plain == op.path else f"-{digest(op.path)[:6]}"
    return f"{op.run_id}-{plain[:80]}{mark}"


class Unsaved:
    """Saves nothing: for inner agents, whose conversation is in the log alone, and where sessions are switched off."""

    def messages(self, turn: int, messages: tuple[Message, ...], *, repair: bool = False) -> None:
        """Messages that the log has."""

    def turn(self, number: int, record: TurnRecord, *, repair: bool, is_live: bool) -> None:
        """A turn that the log has."""

    def attempts(self, turn: int, attempts: tuple[Attempt, ...]) -> None:
        """The calls of a provider for one turn."""

    def deliver(self, turn: int, attempt: int, kind: DeltaKind, text: str) -> None:
        """Text as it comes."""

    def end(self, *, result: str | None = None, error: str | None = None, code: str | None = None) -> None:
        """The work has ended."""

    def close(self) -> None:
        """Let go of the file."""


class Saving(Unsaved):
    """Writes one session."""

    def __init__(self, op: OperationContext, request: AgentRequest, backend: str, tools: tuple[Tool, ...]) -> None:

        def warn(text: str) -> None:
            op.emit("run.notice", {"level": "warn", "code": "session_not_saved", "message": text}, again=True)

        header = Review(
            session_id=session_id_of(op),
            run_id=op.run_id,
            request_id=op.step_id,
            eval_id=request.node_id,
            target=request.node_id,
            producer=producer(os.environ),
            state=op.state_id,
            backend=backend,
            model=request.model,
            reasoning=request.reasoning_effort or None,
            title=request.node_id,
            thread_id=request.thread_id or None,
            tools=tools,
        )
        self._writer = SessionWriter.open(StateHome(op.state_root), header, mask=op.mask, warn=warn)

    def messages(self, turn: int, messages: tuple[Message, ...], *, repair: bool = False) -> None:
        """Messages that the log has."""
        for each in messages:
            self._writer.append(message_event(turn, each, repair=repair))

    def turn(self, number: int, record: TurnRecord, *, repair: bool, is_live: bool) -> None:
        """What was asked, each attempt, the answer. Of a live one the text that was shown is complete."""
        self.messages(number, record.asked, repair=repair)
        self.attempts(number, record.attempts)
        if is_live:
            self._writer.deliver(number, len(record.attempts), 0, "text", "", state="complete")
        self.messages(number, (record.message,), repair=repair)

    def attempts(self, turn: int, attempts: tuple[Attempt, ...]) -> None:
        """The calls of a provider for one turn."""
        for each in attempts:
            error = None
            if each.error is not None and each.error_code is not None:
                error = ModelError(each.error_code, each.error, usage=each.usage)  # type: ignore[arg-type]
            self._writer.append(attempt_event(turn, each.attempt, each.usage, error))

    def deliver(self, turn: int, attempt: int, kind: DeltaKind, text: str) -> None:
        """Text as it comes, for display."""
        self._writer.deliver(turn, attempt, 0 if kind == "text" else 1, kind, text)

    def end(self, *, result: str | None = None, error: str | None = None, code: str | None = None) -> None:
        """The work has ended."""
        if error is not None:
            self._writer.append(End(error=error, error_code=code or "AGENT_ERROR"))
        else:
            self._writer.append(End(result=result))

    def close(self) -> None:
        """Let go of the file."""
        self._writer.close()
