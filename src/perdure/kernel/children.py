"""Runs that a run starts: recorded before they exist, executed in the same process, resumed with their parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from perdure.base import ids
from perdure.base.jsonvalue import JSON, decode
from perdure.kernel import waiting
from perdure.kernel.lifecycle import SETTLED
from perdure.kernel.outcome import Outcome

if TYPE_CHECKING:
    from perdure.kernel.definition import Definition
    from perdure.kernel.history import StepRecord
    from perdure.kernel.run import Frame, Run


class ChildRequest(NamedTuple):
    """The child that a step wants."""

    step_id: str
    definition: Definition
    input: JSON
    input_digest: str
    run_dir: str | None
    is_unwanted: Callable[[], bool] = lambda: False


def replayed_outcome(run: Run, record: StepRecord) -> Outcome:
    """The outcome that the log holds."""
    properties: dict[str, JSON] = decode(record.body)  # type: ignore[assignment]
    return msgspec.convert(run.resolve(properties, "result"), Outcome)


async def execute(run: Run, frame: Frame, request: ChildRequest, record: StepRecord | None) -> Outcome:
    """The outcome of the child, which is made only if no earlier owner made it."""
    engine = run.engine
    if record is not None and record.wait_id:
        child_id = record.wait_id
    else:
        child_id = ids.new_ulid()
        run.log.add(
            "step.started",
            request.step_id,
            {
                "operation": "kernel.child",
                "input_digest": request.input_digest,
                "child_run_id": child_id,
                "child_kind": request.definition.kind,
                "child_name": request.definition.name,
            },
        )
        await run.log.committed()
    if engine.store.find_run(child_id) is None:
        engine.submit(
            request.definition,
            run_id=child_id,
            input=request.input,
            run_dir=request.run_dir,
            parent=run.run_id,
        )
    run.executing += 1
    frame.wait_begins()
    from perdure.kernel.run import Frame

    child_frame = Frame(run)
    try:
        result = await engine.execute(child_id, interviewers=run.interviewers, parent=child_frame)
    except asyncio.CancelledError:
        if request.is_unwanted():
            engine.cancel_idle(child_id, f"not wanted any more by run {run.run_id}")
        raise
    finally:
        run.executing -= 1
        frame.wait_ends()
    if result.status not in SETTLED or result.outcome is None:
        run.halt("parked" if result.status == "waiting" else "paused", f"child run {child_id} is {result.status}")
        await waiting.for_ever(frame)
    outcome = result.outcome
    assert outcome is not None
    run.log.add(
        "step.completed", request.step_id, {"operation": "kernel.child", "result": msgspec.to_builtins(outcome)}
    )
    await run.log.committed()
    return outcome
