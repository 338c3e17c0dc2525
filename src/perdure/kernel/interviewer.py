"""Whoever can put a question to a person from this process: a terminal, the files of the run directory, an automatic yes."""

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

    is_present: bool

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """The answer, or None when this interviewer has none to give."""
