"""Whoever can put a question to a person from this process: a terminal, the files of the run directory, an automatic yes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from perdure.kernel.question import Answer, Question


class PendingQuestion(msgspec.Struct, frozen=True):
    """A question that waits, and where it comes from."""

    question_id: str
    run_id: str
    run_dir: str
    step: str
    question: Question


class Interviewer(Protocol):
    """Asks, and may be cancelled when the answer comes from elsewhere.

    `is_present` says whether somebody who can answer is there: a run does not park while one is.
    """

    @property
    def is_present(self) -> bool:
        """Whether somebody who can answer is there."""

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """The answer, or None when this interviewer has none to give."""


class CallbackInterviewer:
    """Asks a function of the embedding program. It answers at once, or later when it gives an awaitable; None when it cannot."""

    def __init__(
        self,
        function: Callable[[PendingQuestion], Answer | Awaitable[Answer | None] | None],
        *,
        is_present: bool = True,
    ) -> None:
        self._function = function
        self.is_present = is_present

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """What the function says."""
        found = self._function(pending)
        return found if found is None or isinstance(found, Answer) else await found


class QueueInterviewer:
    """Gives prepared answers in their order, one a question; when they are used up it has none to give."""

    is_present = False

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = list(answers)

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """The next answer."""
        return self._answers.pop(0) if self._answers else None


class InOrder:
    """Asks several interviewers one after another, so that a later one is troubled only when the earlier have no answer."""

    def __init__(self, interviewers: Sequence[Interviewer]) -> None:
        self._interviewers = interviewers

    @property
    def is_present(self) -> bool:
        """Whether one of them can answer."""
        return any(each.is_present for each in self._interviewers)

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """The first answer that one of them has."""
        for each in self._interviewers:
            answer = await each.ask(pending)
            if answer is not None:
                return answer
        return None
