"""The scripted backend: answers from a file (JSON, or TOML by its ending), for tests and rehearsals.

    {"answers": {"implement": ["first visit", {"text": "second visit", "files": {"a.txt": "content"}}], "*": "any other node"}}

An answer is a text, or an object of `text`, `directive`, `files` (written into the working folder), `delay_ms`, `usage`,
`exit_code` (other than 0: a failure, after the files) and `fail` (a message; `retryable` true lets it be tried again). A list is by
visit, its last answer holds for all later ones; inside it a list is by attempt. Answers depend on node, visit and attempt only, so a
resumed run gets the same ones.
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

import msgspec

from perdure.agents.backend import AgentContext, AgentRequest, AgentResult, BackendError
from perdure.base.errors import Refused


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the file."""

    text: str = ""
    directive: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    files: dict[str, str] = {}
    delay_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    exit_code: int = 0
    fail: str = ""
    retryable: bool = False


Said = str | Answer
Attempts = Annotated[list[Said], msgspec.Meta(min_length=1)]
Visits = Annotated[list[str | Answer | Attempts], msgspec.Meta(min_length=1)]


class Script(msgspec.Struct, frozen=True):
    """The file: answers by node id; `*` is for every other node."""

    answers: dict[str, str | Answer | Visits]


class ScriptedBackend:
    """Answers as a file says."""

    def __init__(self, script: Script) -> None:
        self._answers = script.answers

    @classmethod
    def load(cls, path: str) -> ScriptedBackend:
        """The answers of a file. Raises `Refused`, naming the place in it, when it cannot be used."""
        try:
            with open(path, "rb") as file:
                content = file.read()
            if path.endswith(".toml"):
                import tomllib

                return cls(msgspec.convert(tomllib.loads(content.decode()), Script))
            return cls(msgspec.json.decode(content, type=Script))
        except OSError as error:
            raise Refused(f"The answers {path} cannot be read: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            hint = 'The form: {"answers": {"NODE": "text", "*": {"text": "..."}}}.'
            raise Refused(f"The answers {path} cannot be used: {error}.", hint=hint) from error

    async def run(self, request: AgentRequest, turn: AgentContext) -> AgentResult:
        """The answer for this node, visit and attempt. Raises `BackendError` when there is none, or it is a failure."""
        answer = self._find(request)
        if answer.delay_ms:
            await asyncio.sleep(answer.delay_ms / 1000)
        if answer.fail:
            raise BackendError(
                answer.fail,
                failure_class="transient_infra" if answer.retryable else None,
                retryable=answer.retryable,
                partial=answer.text,
            )
        for name, content in answer.files.items():
            _write(request.cwd, name, content)
        if answer.exit_code:
            raise BackendError(f"The script ends with exit code {answer.exit_code}.", partial=answer.text)
        return AgentResult(answer.text, answer.directive, answer.usage, list(answer.files))

    def _find(self, request: AgentRequest) -> Answer:
        found: str | Answer | list[Any] | None = self._answers.get(request.node_id, self._answers.get("*"))
        for number in (request.visit, request.attempt):
            if isinstance(found, list):
                found = found[min(number, len(found)) - 1]
        if isinstance(found, str):
            return Answer(found)
        if not isinstance(found, Answer):
            raise BackendError(f"The script has no answer for node {request.node_id}.")
        return found


def _write(folder: str, name: str, content: str) -> None:
    path = os.path.realpath(os.path.join(folder, name))
    if not path.startswith(os.path.realpath(folder) + os.sep):
        raise BackendError(f"The script writes {name}, which lies outside of the working folder.")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
