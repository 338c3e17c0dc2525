"""Interviewers of embedding programs: functions, queues, several in an order."""

import asyncio

from perdure.kernel.interviewer import CallbackInterviewer, InOrder, PendingQuestion, QueueInterviewer
from perdure.kernel.question import Answer, Question

PENDING = PendingQuestion("Q", "R", "/none", "gate/answer", Question("Good?"))
YES, NO = Answer("yes"), Answer("no")


def test_a_function_answers_at_once_or_later() -> None:
    async def later(_pending: PendingQuestion) -> Answer | None:
        return NO

    assert asyncio.run(CallbackInterviewer(lambda _pending: YES).ask(PENDING)) == YES
    assert asyncio.run(CallbackInterviewer(later).ask(PENDING)) == NO


def test_a_queue_gives_each_answer_once() -> None:
    queue = QueueInterviewer([YES, NO])

    assert [asyncio.run(queue.ask(PENDING)) for _ in range(3)] == [YES, NO, None]


def test_a_later_interviewer_is_asked_only_when_the_earlier_has_no_answer() -> None:
    asked = []

    def person(pending: PendingQuestion) -> Answer | None:
        asked.append(pending.question_id)
        return NO

    both = InOrder([QueueInterviewer([YES]), CallbackInterviewer(person)])

    assert [asyncio.run(both.ask(PENDING)) for _ in range(2)] == [YES, NO]
    assert asked == ["Q"]
    assert both.is_present
