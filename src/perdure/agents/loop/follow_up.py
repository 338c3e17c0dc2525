"""A question about a conversation that has ended: a small run of its own, which goes on in the recorded session.

What was said is replayed unchanged, so the provider still finds it in its cache. The follow-up is a run like any other: its turns are
steps, a kill costs the turn that was under way, and `perdure resume` goes on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.backend import AgentContext, AgentRequest, AgentSettings, BackendError
from perdure.agents.loop.backend import ModelBackend
from perdure.agents.loop.saving import Saving, Unsaved
from perdure.agents.sessions.events import Answer, Message, Send, message_event
from perdure.agents.sessions.files import session_path
from perdure.agents.sessions.reader import messages_for_replay, sound_events
from perdure.agents.sessions.writer import SessionWriter
from perdure.disk.home import StateHome
from perdure.kernel.operation import OperationFailed, StepFailed, operation
from perdure.kernel.outcome import Failure, Outcome
from perdure.llm import protocol

if TYPE_CHECKING:
    from perdure.base.jsonvalue import JSON
    from perdure.kernel.context import OperationContext, RunContext
    from perdure.llm.protocol import Tool

FRAME = (
    "A person has a question about the work above, which has ended. Answer in plain text; you may use the tools that you are offered now. "
    "Whatever you answer, the recorded result of the work stays as it is."
)
CHANGED = "The files are not as the work left them."


class FollowUp(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is asked of which session, and what its run is told. `cwd` "" offers no tools."""

    session_id: str
    text: str
    backend: str
    model: str
    reasoning: str = ""
    cwd: str = ""
    workspace: str = ""
    permission: str = "read-only"
    files_changed: bool = False
    settings: AgentSettings = AgentSettings()

    @property
    def framing(self) -> str:
        """What stands before the question."""
        return f"{FRAME} {CHANGED}" if self.files_changed else FRAME


class FollowUpDefinition:
    """A follow-up as something that can be run."""

    kind = "follow_up"
    name = "follow-up"

    def __init__(self, asked: FollowUp) -> None:
        self.asked = asked

    def body(self) -> dict[str, JSON]:
        found: dict[str, JSON] = msgspec.to_builtins(self.asked)
        return found

    def start_properties(self, run_id: str) -> dict[str, JSON]:
        """Nothing of the moment counts."""
        return {}

    async def interpret(self, run: RunContext) -> Outcome:
        run.local = self.asked
        input = {"session_id": self.asked.session_id}
        try:
            send: Any = await run.step("begin", "follow_up.begin", input)
            result: Any = await run.step("answer", "follow_up.answer", input | {"send": send})
        except StepFailed as error:
            return Outcome("failed", "workflow_error", error.failure)
        output = {"send": send, "answer": result["text"]}
        return Outcome("succeeded", output=output, properties={"usage": result["usage"]})


def load(body: dict[str, Any]) -> FollowUpDefinition:
    """The follow-up that a run recorded."""
    return FollowUpDefinition(msgspec.convert(body, FollowUp))


@operation("follow_up.begin", effects=False)
def begin(op: OperationContext, input: dict[str, Any]) -> JSON:
    """The number of this follow-up in its session."""
    path = session_path(StateHome(op.state_root), input["session_id"])
    return max((entry.event.send or 0 for entry in sound_events(path)), default=0) + 1


@operation("follow_up.answer")
async def answer(op: OperationContext, input: dict[str, Any]) -> JSON:
    """The answer, with what it used. Raises `OperationFailed`."""
    asked: FollowUp = op.local
    request = AgentRequest(
        prompt=asked.text,
        node_id=asked.session_id,
        run_id=op.run_id,
        visit=1,
        attempt=op.attempt,
        model=asked.model,
        provider="",
        reasoning_effort=asked.reasoning,
        thread_id="",
        fidelity="full",
        is_prompt_only=not asked.cwd,
        cwd=asked.cwd,
        env=dict(os.environ),
        timeout_ms=None,
        max_tokens=None,
        permission=asked.permission,
        root=asked.cwd,
        workspace=asked.workspace,
    )
    scratch = os.path.join(op.run_dir, "scratch")
    context = AgentContext(
        op=op,
        scratch=scratch,
        new_filter=op.mask.stream if op.mask is not None else None,
        on_started=None,
        keep_text=op.keep_text,
        settings=asked.settings,
    )
    try:
        result = await _FollowUpBackend(asked, int(input["send"])).run(request, context)
    except BackendError as error:
        raise OperationFailed(Failure(error.message, code=error.error_code or None)) from error
    return {"text": result.text, "usage": result.usage}


class _FollowUpBackend(ModelBackend):
    """The model's loop, in a conversation that a session holds."""

    def __init__(self, asked: FollowUp, send: int) -> None:
        super().__init__(asked.backend)
        self._asked = asked
        self._send = send

    def _earlier(self, op: OperationContext, request: AgentRequest, turn: AgentContext) -> tuple[protocol.Message, ...]:
        path = session_path(StateHome(op.state_root), self._asked.session_id)
        return tuple(messages_for_replay(path, self._send))

    def _first(
        self, request: AgentRequest, settings: object, *, has_tools: bool, is_new: bool
    ) -> tuple[protocol.Message, ...]:
        return (protocol.Message("user", text=f"{self._asked.framing}\n\n{request.prompt}"),)

    def _saving(
        self, op: OperationContext, request: AgentRequest, turn: AgentContext, tools: tuple[Tool, ...], *, enabled: bool
    ) -> Unsaved:
        return _Saving(op, self._asked, self._send, tools)

    def _cache_key(self, op: OperationContext) -> str:
        return self._asked.session_id


class _Saving(Saving):
    """Writes a follow-up into its session, which is locked until it has ended: another one goes on after its answer."""

    def __init__(self, op: OperationContext, asked: FollowUp, send: int, tools: tuple[Tool, ...]) -> None:
        self._asked = asked
        self._writer = SessionWriter.follow_up(StateHome(op.state_root), asked.session_id, send=send, mask=op.mask)
        self._writer.append(
            Send(text=asked.text, framing=asked.framing, files_changed=asked.files_changed, tools=tools)
        )

    def messages(self, turn: int, messages: tuple[protocol.Message, ...], *, repair: bool = False) -> None:
        """Messages of this follow-up; turn 0 is what the session holds already."""
        for each in messages if turn else ():
            is_question = each.role == "user" and each.text.startswith(FRAME)
            event: Message = message_event(
                turn, each, repair=repair, question=self._asked.text if is_question else None
            )
            self._writer.append(event)

    def end(self, *, result: str | None = None, error: str | None = None, code: str | None = None) -> None:
        """The follow-up has ended."""
        if error is not None:
            self._writer.append(Answer(error=error, error_code=code or "AGENT_ERROR"))
        else:
            self._writer.append(Answer(text=result or ""))
