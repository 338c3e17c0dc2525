"""Waits that need no process: questions to people, times, pauses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from perdure.base import ids
from perdure.base.jsonvalue import JSON, decode, digest, encode
from perdure.kernel.interviewer import PendingQuestion
from perdure.kernel.question import Answer, Question

if TYPE_CHECKING:
    from perdure.kernel.history import StepRecord
    from perdure.kernel.interviewer import Interviewer
    from perdure.kernel.run import Frame, Run


def question_digest(question: Question) -> str:
    """What identifies a question at replay."""
    return digest(["kernel.ask", msgspec.to_builtins(question)])


def replayed_answer(record: StepRecord) -> Answer:
    """The answer that the log holds."""
    properties: dict[str, JSON] = decode(record.body)  # type: ignore[assignment]
    return msgspec.convert(properties["answer"], Answer)


async def ask_anew(run: Run, frame: Frame, step_id: str, question: Question) -> Answer:
    """An answer to a question of the kernel itself, asked once."""
    record = run.history.steps.get(step_id)
    if record is not None and record.end is not None:
        return replayed_answer(record)
    return await ask(run, frame, step_id, question, question_digest(question), record)


async def ask(
    run: Run, frame: Frame, step_id: str, question: Question, input_digest: str, record: StepRecord | None
) -> Answer:
    """Ask, park while nobody has answered, and record the answer. A question asked before keeps its id."""
    if record is not None and record.wait_id:
        question_id, asked_at = record.wait_id, record.began_at
    else:
        question_id, asked_at = ids.new_ulid(), run.clock.now_ms()
        run.log.add("interview.started", step_id, _asked(question_id, question, input_digest))
    body = encode(question).decode()
    if run.mask is not None:
        body = run.mask.mask(body.encode()).decode()
    run.log.open_question(question_id, step_id, body)
    await run.log.committed()
    pending = PendingQuestion(question_id, run.run_id, run.run_dir, step_id, question)
    answer = await _answer(run, frame, pending, asked_at)
    properties: dict[str, JSON] = {
        "question_id": question_id,
        "question": question.text,
        "answer": msgspec.to_builtins(answer),
        "duration_ms": run.clock.now_ms() - asked_at,
    }
    nobody = answer.kind == "timeout" or answer.by == "default"
    run.log.add("interview.timeout" if nobody else "interview.completed", step_id, properties)
    run.log.close_question(question_id)
    await run.log.committed()
    return answer


def _asked(question_id: str, question: Question, input_digest: str) -> dict[str, JSON]:
    return {
        "question_id": question_id,
        "question": question.text,
        "question_type": question.type,
        "options": msgspec.to_builtins(question.options),
        "allow_freeform": question.allow_freeform,
        "default": question.default,
        "timeout_ms": question.timeout_ms,
        "context": question.context,
        "metadata": question.metadata,
        "input_digest": input_digest,
    }


async def _answer(run: Run, frame: Frame, pending: PendingQuestion, asked_at: int) -> Answer:
    """The first answer that the store has taken, from wherever."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()
    run.questions[pending.question_id] = answered
    tasks = [loop.create_task(_interview(run, each, pending)) for each in run.interviewers]
    if pending.question.timeout_ms is not None:
        tasks.append(loop.create_task(_time_out(run, pending, asked_at + pending.question.timeout_ms)))
    frame.wait_begins()
    try:
        run.engine.others.look_for_answer(run, pending.question_id)
        text = await answered
    finally:
        del run.questions[pending.question_id]
        frame.wait_ends()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return msgspec.json.decode(text, type=Answer)


async def _interview(run: Run, interviewer: Interviewer, pending: PendingQuestion) -> None:
    answer = await interviewer.ask(pending)
    if answer is not None:
        run.engine.answer(pending.question_id, answer)
        run.engine.others.look_for_answer(run, pending.question_id)


async def _time_out(run: Run, pending: PendingQuestion, deadline: int) -> None:
    await asyncio.sleep(max(0, deadline - run.clock.now_ms()) / 1000)
    run.engine.answer(pending.question_id, answer_of_nobody(pending.question))
    run.engine.others.look_for_answer(run, pending.question_id)


def answer_of_nobody(question: Question) -> Answer:
    """What a question's time limit makes of silence: its declared default, else a timeout, which never is consent."""
    if question.default is None:
        return Answer("timeout", by="nobody")
    if question.type in ("yes_no", "confirmation"):
        return Answer("yes" if question.default.lower() in ("yes", "y") else "no", by="default")
    if question.type == "freeform":
        return Answer("text", text=question.default, by="default")
    return Answer("selected", [question.default], by="default")


async def sleep(
    run: Run, frame: Frame, step_id: str, duration_ms: int, input_digest: str, record: StepRecord | None
) -> None:
    """Wait until a recorded time."""
    if record is not None and record.until is not None:
        due = record.until
    else:
        due = run.clock.now_ms() + duration_ms
        run.log.add("step.started", step_id, {"operation": "kernel.sleep", "input_digest": input_digest, "until": due})
        await run.log.committed()
    await until(run, frame, due)
    run.log.add("step.completed", step_id, {"operation": "kernel.sleep", "result": None})
    await run.log.committed()


async def until(run: Run, frame: Frame, due_ms: int) -> None:
    """Wait until this time (epoch ms)."""
    frame.wait_begins()
    run.timers += 1
    try:
        while (left := due_ms - run.clock.now_ms()) > 0:
            # Short naps, so that a machine that slept wakes up on time by the wall clock.
            await asyncio.sleep(min(left / 1000, 60))
    finally:
        run.timers -= 1
        frame.wait_ends()


async def for_ever(frame: Frame) -> None:
    """Wait until the run is stopped."""
    frame.wait_begins()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        frame.wait_ends()
