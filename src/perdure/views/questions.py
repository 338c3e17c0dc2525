"""The files of open questions: each under its own name, the oldest under the one name that every reader knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from perdure.base.names import file_name

if TYPE_CHECKING:
    from perdure.base.jsonvalue import JSON
    from perdure.views.files import Files

SHOWN = "runtime/interview_request.json"
ANSWER = "runtime/interview_response.json"


class OpenQuestions:
    """The questions that wait, oldest first, as they lie in `runtime/`."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._open: dict[str, dict[str, JSON]] = {}

    def asked(self, question_id: str, request: dict[str, JSON]) -> None:
        """A question waits. Written again, its files keep their time: an answer is judged by it."""
        self._open[question_id] = request
        self._files.write_json(f"runtime/interview_requests/{file_name(question_id)}.json", request, keep_same=True)
        self._show()

    def closed(self, question_id: str) -> None:
        """It waits no more; its answer's files go with it, those of other questions stay."""
        was_shown = next(iter(self._open), None) == question_id
        self._open.pop(question_id, None)
        name = file_name(question_id)
        self._files.remove(f"runtime/interview_requests/{name}.json")
        self._files.remove(f"runtime/interview_responses/{name}.json")
        if self._files.enabled and self._is_done_with(was_shown=was_shown):
            self._files.remove(ANSWER)
        self._show()

    def _show(self) -> None:
        if self._open:
            self._files.write_json(SHOWN, next(iter(self._open.values())), keep_same=True)
        else:
            self._files.remove(SHOWN)

    def _is_done_with(self, *, was_shown: bool) -> bool:
        """Whether the answer under the common name is for no question that still waits."""
        content = self._files.read(ANSWER)
        if content is None:
            return False
        try:
            answer = msgspec.json.decode(content)
        except (ValueError, RecursionError):
            return was_shown
        named = answer.get("question_id") if isinstance(answer, dict) else None
        return named not in self._open if isinstance(named, str) and named else was_shown
