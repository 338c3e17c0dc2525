"""The scripted backend: answers from a file, for tests and rehearsals.

    {"answers": {"implement": ["first visit", {"text": "second visit", "files": {"a.txt": "content"}}], "*": "any other node"}}

An answer is a text, or an object of `text`, `directive`, `files` (written into the working folder), `delay_ms`, `usage`, and
`fail` (a message; `retryable` true lets it be tried again). A list is by visit, its last answer holds for all later ones; inside it a
list is by attempt. Answers depend on node, visit and attempt only, so a resumed run gets the same ones.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from perdure.agents.backend import BackendError, TurnContext, TurnRequest, TurnResult
from perdure.base.errors import Refused


class ScriptedBackend:
    """Answers as a file says."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    @classmethod
    def load(cls, path: str) -> ScriptedBackend:
        """The answers of a file. Raises `Refused` when it cannot be read."""
        try:
            with open(path, "rb") as file:
                value = msgspec.json.decode(file.read())
        except (OSError, msgspec.DecodeError) as error:
            raise Refused(f"The answers {path} cannot be read: {error}.") from error
        answers = value.get("answers") if isinstance(value, dict) else None
        if not isinstance(answers, dict):
            raise Refused(f"The answers {path} have no object 'answers'.")
        return cls(answers)

    async def run(self, request: TurnRequest, turn: TurnContext) -> TurnResult:
        """The answer for this node, visit and attempt. Raises `BackendError` when there is none, or it is a failure."""
        answer = self._find(request)
        if isinstance(answer, str):
            return TurnResult(answer)
        if answer.get("delay_ms"):
            await asyncio.sleep(answer["delay_ms"] / 1000)
        if answer.get("fail"):
            retryable = bool(answer.get("retryable"))
            raise BackendError(
                str(answer["fail"]),
                failure_class="transient_infra" if retryable else "deterministic",
                retryable=retryable,
            )
        for name, content in (answer.get("files") or {}).items():
            _write(request.cwd, name, content)
        return TurnResult(
            text=str(answer.get("text", "")),
            directive=answer.get("directive"),
            usage=answer.get("usage"),
            files_touched=list(answer.get("files") or {}),
        )

    def _find(self, request: TurnRequest) -> Any:
        answer = self._answers.get(request.node_id, self._answers.get("*"))
        for number in (request.visit, request.attempt):
            if isinstance(answer, list) and answer:
                answer = answer[min(number, len(answer)) - 1]
        if not isinstance(answer, (str, dict)):
            raise BackendError(f"The script has no answer for node {request.node_id}.")
        return answer


def _write(folder: str, name: str, content: str) -> None:
    path = os.path.realpath(os.path.join(folder, name))
    if not path.startswith(os.path.realpath(folder) + os.sep):
        raise BackendError(f"The script writes {name}, which lies outside of the working folder.")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
