"""How an execution ends: settled with an outcome, or left parked or paused to be resumed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from perdure.base.errors import PerdureError
from perdure.base.jsonvalue import JSON, decode, encode
from perdure.kernel import large
from perdure.kernel.outcome import Failure, Outcome
from perdure.store.records import Settlement

if TYPE_CHECKING:
    from perdure.kernel.large import BlobStore
    from perdure.kernel.run import Run
    from perdure.kernel.runlog import Mask
    from perdure.store.protocol import Store
    from perdure.store.records import RunRow


class RunResult(msgspec.Struct, frozen=True):
    """How an execution ended: settled with an outcome, or `waiting` or `paused` without one."""

    run_id: str
    status: str
    outcome: Outcome | None = None
    reason: str | None = None


def settle(run: Run, outcome: Outcome) -> RunResult:
    """Record the outcome; a settled run never changes."""
    now = run.clock.now_ms()
    started = run.row.started_at or run.row.created_at
    properties: dict[str, JSON] = {
        "status": outcome.status,
        "reason": outcome.reason,
        "duration_ms": now - started,
        "failure": msgspec.to_builtins(outcome.failure) if outcome.failure else None,
        "output": run.checked(outcome.output, "output"),
    }
    properties |= run.checked(outcome.properties, "properties")  # type: ignore[arg-type]
    record = _shown(run.row.record) | {"duration_ms": now - started, "reason": outcome.reason}
    if "usage" in outcome.properties:
        record["usage"] = properties["usage"]
    if outcome.failure is not None:
        record["failure"] = outcome.failure.message
    name = {"failed": "run.failed", "cancelled": "run.cancelled"}.get(outcome.status, "run.completed")
    run.change_status(outcome.status)
    run.log.add(name, None, properties)
    run.log.settle(Settlement(outcome.status, now, masked_text(run.mask, record)))
    run.log.commit()
    run.log.flush()
    return RunResult(run.run_id, outcome.status, outcome, outcome.reason)


def stopped(run: Run) -> RunResult:
    """What becomes of a run whose interpretation was stopped."""
    if run.fatal is not None:
        raise run.fatal
    if run.log.broken is not None:
        raise run.log.broken
    stop = run.stop or run.parent_stop or "interrupted"
    if stop == "cancelled":
        reason = run.stop_reason or "cancelled"
        result = settle(run, Outcome("cancelled", "cancelled", Failure(reason, "canceled", code="cancelled")))
        if run.stop is None:
            raise asyncio.CancelledError
        return result
    if stop == "parked":
        if run.status != "waiting":
            run.wait()
        run.log.release()
    else:
        _pause(run, run.stop_reason or stop)
    run.log.commit()
    run.log.flush()
    if run.stop is None:
        raise asyncio.CancelledError  # whoever awaits this run is being cancelled itself
    return RunResult(run.run_id, run.status, None, run.stop_reason)


def left(run: Run, error: Exception) -> None:
    """An error outside of any step: the run pauses where it is, and resuming goes on there."""
    if run.log.broken is not None:
        return
    code = error.code if isinstance(error, PerdureError) else "interpreter_error"
    text = str(error) if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
    with suppress(PerdureError):
        run.log.add("run.notice", None, {"level": "error", "code": code, "message": text})
        _pause(run, text)
        run.log.commit()
        run.log.flush()


def _pause(run: Run, reason: str) -> None:
    run.change_status("paused")
    run.log.add("run.paused", None, {"reason": reason})
    run.log.release()


def settled_result(store: Store, blobs: BlobStore, row: RunRow) -> RunResult:
    """The outcome of a run that was settled before, from its last event."""
    last = store.last_event(row.no)
    properties = decode(last.body) if last is not None else {}
    assert isinstance(properties, dict)
    failure = properties.get("failure")
    outcome = Outcome(
        row.status,  # type: ignore[arg-type]
        properties.get("reason"),  # type: ignore[arg-type]
        msgspec.convert(failure, Failure) if failure else None,
        large.resolve(properties.get("output"), blobs),
    )
    return RunResult(row.run_id, row.status, outcome, outcome.reason)


def masked_text(mask: Mask | None, value: JSON) -> str:
    """The value as JSON text without secrets."""
    text = encode(value)
    return (text if mask is None else mask.mask(text)).decode()


def _shown(record: str) -> dict[str, JSON]:
    value = decode(record)
    return value if isinstance(value, dict) else {}
