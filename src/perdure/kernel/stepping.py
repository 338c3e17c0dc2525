"""Executing a step that has no result yet: attempts, their events, and what follows an interruption."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from perdure.base.errors import PerdureError
from perdure.base.jsonvalue import JSON
from perdure.kernel import waiting
from perdure.kernel.operation import Operation, OperationFailed, StepFailed
from perdure.kernel.outcome import Failure
from perdure.kernel.question import Option, Question

if TYPE_CHECKING:
    from perdure.kernel.context import OnInterrupt
    from perdure.kernel.history import StepRecord
    from perdure.kernel.retry import Retry
    from perdure.kernel.run import Frame, Run


class Plan(NamedTuple):
    """What a step is to do."""

    step_id: str
    operation: Operation
    input: JSON
    input_digest: str
    retry: Retry
    on_interrupt: OnInterrupt
    properties: dict[str, JSON]


class _Attempt(NamedTuple):
    """How an attempt ended: with a value, or with a failure."""

    value: JSON
    failure: Failure | None
    retryable: bool
    duration_ms: int


async def execute(run: Run, frame: Frame, plan: Plan, record: StepRecord | None) -> JSON:
    """The result of the step, recorded. Raises `StepFailed` when its last attempt failed."""
    attempt, was_interrupted, is_open = 1, False, False
    if record is not None:
        attempt = record.attempt
        # Without effects there is nothing that an owner's death could have cut: the step just goes on.
        is_open = record.in_attempt and not plan.operation.effects
        was_interrupted = record.in_attempt and plan.operation.effects
        if record.retry_at is not None:
            await waiting.until(run, frame, record.retry_at)
        elif was_interrupted:
            await _interrupted(run, frame, plan, record)
    while True:
        if not is_open:
            _start(run, plan, attempt)
        ended = await _attempt(run, frame, plan, attempt, was_interrupted)
        properties = plan.properties | {"attempt": attempt, "duration_ms": ended.duration_ms}
        if ended.failure is None:
            properties["result"] = ended.value
            run.log.add("step.completed", plan.step_id, properties)
            await run.log.committed()
            return ended.value
        will_retry = ended.retryable and attempt < plan.retry.max_attempts
        properties["failure"] = msgspec.to_builtins(ended.failure)
        properties["will_retry"] = will_retry
        if ended.value is not None:
            properties["result"] = ended.value
        run.log.add("step.failed", plan.step_id, properties)
        if not will_retry:
            await run.log.committed()
            raise StepFailed(plan.step_id, ended.failure, ended.value)
        await _wait_for_next(run, frame, plan, attempt)
        attempt, was_interrupted, is_open = attempt + 1, False, False


def _start(run: Run, plan: Plan, attempt: int) -> None:
    """Say that an attempt begins."""
    started: dict[str, JSON] = {
        "operation": plan.operation.name,
        "input_digest": plan.input_digest,
        "attempt": attempt,
        "max_attempts": plan.retry.max_attempts,
    }
    if plan.input is not None:
        started["input"] = plan.input
    if plan.properties:
        started |= plan.properties
    run.log.add("step.started", plan.step_id, started)


async def _attempt(run: Run, frame: Frame, plan: Plan, attempt: int, was_interrupted: bool) -> _Attempt:
    """Start the operation, once. Its start is durable before it can have any effect."""
    from perdure.kernel.run import Frame
    from perdure.kernel.scope import OperationScope

    operation = plan.operation
    if operation.effects:
        await run.log.committed()
        run.show()
    context = OperationScope(run, Frame(run), plan.step_id, attempt, plan.retry.max_attempts, was_interrupted)
    begun = run.clock.monotonic_ms()
    run.executing += 1
    frame.wait_begins()
    failure, retryable, value = None, False, None
    try:
        value = operation.function(context, plan.input)
        if hasattr(value, "__await__"):
            value = await value
        value = run.checked(value, "result")
    except OperationFailed as error:
        failure, retryable, value = error.failure, error.retryable, run.checked(error.result, "result")
    except StepFailed as error:
        failure, value = error.failure, None
    except Exception as error:
        if run.fatal is not None or run.log.broken is not None:
            raise
        failure, value = _failure_from(error), None
    finally:
        run.executing -= 1
        frame.wait_ends()
    return _Attempt(value, failure, retryable, round(run.clock.monotonic_ms() - begun))


async def _wait_for_next(run: Run, frame: Frame, plan: Plan, attempt: int) -> None:
    """Record when the next attempt is due, and wait for it."""
    delay = plan.retry.delay_ms(attempt, run.engine.random())
    due = run.clock.now_ms() + delay
    retrying: dict[str, JSON] = {
        "attempt": attempt + 1,
        "max_attempts": plan.retry.max_attempts,
        "delay_ms": delay,
        "until": due,
    }
    run.log.add("step.retrying", plan.step_id, plan.properties | retrying)
    await run.log.committed()
    await waiting.until(run, frame, due)


async def _interrupted(run: Run, frame: Frame, plan: Plan, record: StepRecord) -> None:
    """Say that an earlier owner died in this attempt, and do what the step wants done then."""
    run.log.add(
        "step.interrupted",
        plan.step_id,
        plan.properties | {"attempt": record.attempt, "starts": record.starts, "on_interrupt": plan.on_interrupt},
    )
    if plan.on_interrupt == "rerun":
        return
    if plan.on_interrupt == "ask":
        question = Question(
            text=f"Step {plan.step_id} was started and its outcome is unknown. Start it again?",
            type="multiple_choice",
            options=[Option("rerun", "Start it again"), Option("fail", "Count it as failed")],
        )
        answer = await waiting.ask_anew(run, frame, f"{plan.step_id}/+interrupted-{record.starts}", question)
        if answer.selected == ["rerun"]:
            return
    failure = Failure(
        f"Step {plan.step_id} was interrupted and its outcome is unknown.", "transient_infra", code="interrupted"
    )
    run.log.add(
        "step.failed",
        plan.step_id,
        plan.properties | {"attempt": record.attempt, "failure": msgspec.to_builtins(failure), "will_retry": False},
    )
    await run.log.committed()
    raise StepFailed(plan.step_id, failure)


def _failure_from(error: Exception) -> Failure:
    """An exception of an operation as the failure of its step."""
    if isinstance(error, PerdureError):
        return Failure(str(error), code=error.code)
    if isinstance(error, (asyncio.TimeoutError, ConnectionError)):
        return Failure(f"{type(error).__name__}: {error}", "transient_infra", code="exception")
    return Failure(f"{type(error).__name__}: {error}", code="exception")


def failure_of(properties: dict[str, JSON]) -> Failure:
    """The failure that a step's end recorded."""
    return msgspec.convert(properties["failure"], Failure)
