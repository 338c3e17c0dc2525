"""What the log already knows, folded for replay: the state of each step, and how often each event was emitted."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from perdure.base.jsonvalue import JSON
from perdure.kernel.events import Event

# Steps of the kernel itself are waits and readings: an owner's death does not interrupt them.
KERNEL_OPERATIONS = "kernel."


class StepRecord(msgspec.Struct):
    """What the log says of one step.

    `end` is how it ended; `body` the properties of its last event. While it has no end, `in_attempt` says that an attempt
    was begun, and `retry_at` (epoch ms) that the next one was due then. `wait_id` is its question or its child run.
    """

    operation: str = ""
    input_digest: str = ""
    attempt: int = 1
    starts: int = 0
    in_attempt: bool = False
    retry_at: int | None = None
    began_at: int = 0
    wait_id: str | None = None
    until: int | None = None
    end: Literal["completed", "failed"] | None = None
    body: bytes = b""


class _Began(msgspec.Struct):
    operation: str = ""
    input_digest: str = ""
    attempt: int = 1
    question_id: str | None = None
    child_run_id: str | None = None
    until: int | None = None


class _Failed(msgspec.Struct):
    attempt: int = 1
    will_retry: bool = False
    until: int | None = None


class _Steering(msgspec.Struct):
    text: str = ""
    texts: list[str] = []


_steering = msgspec.json.Decoder(_Steering)
_began = msgspec.json.Decoder(_Began)
_failed = msgspec.json.Decoder(_Failed)


class History:
    """The fold of a log. Empty for a run that was never begun."""

    def __init__(self) -> None:
        self.steps: dict[str, StepRecord] = {}
        self.emitted: dict[tuple[str, str], list[Event]] = {}
        self.last_seq = 0
        self.start: dict[str, JSON] | None = None
        self.resumptions = 0

    def fold(self, events: Iterable[Event]) -> None:
        """Take in the next events of the log."""
        for event in events:
            self.last_seq = event.seq
            handler = _HANDLERS.get(event.event)
            if handler is not None and event.step is not None:
                handler(self.steps.setdefault(event.step, StepRecord()), event)
            elif event.event == "run.started":
                self.start = event.properties
            elif event.event == "run.resumed":
                self.resumptions += 1
            else:
                self.emitted.setdefault((event.step or "", event.event), []).append(event)

    def untaken_steering(self) -> list[str]:
        """What people said to the run, oldest first, that no step has taken."""
        said = [_steering.decode(each.body).text for each in self.emitted.get(("", "run.steer_requested"), ())]
        for (_step, event), found in self.emitted.items():
            if event == "run.steering_taken":
                for text in (text for each in found for text in _steering.decode(each.body).texts):
                    if text in said:
                        said.remove(text)
        return said

    def open_steps(self) -> list[str]:
        """The ids of steps that were begun and have no end."""
        return [step for step, record in self.steps.items() if record.end is None]


def _step_started(record: StepRecord, event: Event) -> None:
    began = _began.decode(event.body)
    record.operation = began.operation
    record.input_digest = began.input_digest
    record.attempt = began.attempt
    record.in_attempt = True
    record.retry_at = None
    record.starts += 1
    record.began_at = record.began_at or event.ts
    record.wait_id = began.question_id or began.child_run_id
    record.until = began.until


def _step_completed(record: StepRecord, event: Event) -> None:
    record.end = "completed"
    record.body = event.body
    if not record.operation:
        _step_started(record, event)


def _step_failed(record: StepRecord, event: Event) -> None:
    record.in_attempt = False
    if not _failed.decode(event.body).will_retry:
        record.end = "failed"
        record.body = event.body


def _step_retrying(record: StepRecord, event: Event) -> None:
    failed = _failed.decode(event.body)
    record.attempt = failed.attempt
    record.retry_at = failed.until


def _question_asked(record: StepRecord, event: Event) -> None:
    _step_started(record, event)
    record.operation = "kernel.ask"


_HANDLERS = {
    "step.started": _step_started,
    "step.completed": _step_completed,
    "step.failed": _step_failed,
    "step.retrying": _step_retrying,
    "interview.started": _question_asked,
    "interview.completed": _step_completed,
    "interview.timeout": _step_completed,
}
