"""Operations: the named work that steps do. A name, JSON in, JSON out; never a closure.

    @operation("command.run")
    async def run_command(op: OperationContext, input: JSON) -> JSON: ...

An operation may be sync or async. It fails by raising: `OperationFailed` with a failure that it knows, or any other
exception, which counts as a deterministic failure. What it returns is recorded; what it did outside is not, so an
operation that has effects must tolerate being started again after a kill, or its step says `on_interrupt="ask"` or `"fail"`.

`effects=False` promises that a started operation leaves nothing behind when it dies: then its start and its end share one
commit. An operation that is made of steps of its own, and does nothing else, may promise it too.
"""

from collections.abc import Callable
from typing import Any

from perdure.base.errors import PerdureError, Refused
from perdure.base.jsonvalue import JSON
from perdure.kernel.outcome import Failure


class OperationFailed(PerdureError):
    """An attempt failed. `retryable` lets the step's policy try again; `result` is recorded with the failure."""

    code = "step_failed"
    exit_code = 1

    def __init__(self, failure: Failure, *, retryable: bool = False, result: JSON = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.retryable = retryable
        self.result = result


class StepFailed(PerdureError):
    """A step's last attempt failed: what `RunContext.step` raises, now and at every replay.

    `failure` says why, `result` is what the operation gave along with it.
    """

    code = "step_failed"
    exit_code = 1

    def __init__(self, step: str, failure: Failure, result: JSON = None) -> None:
        super().__init__(f"Step {step!r} failed: {failure.message}")
        self.step = step
        self.failure = failure
        self.result = result


class Operation:
    """A registered operation."""

    __slots__ = ("effects", "function", "name")

    def __init__(self, name: str, function: Callable[..., Any], effects: bool) -> None:
        self.name = name
        self.function = function
        self.effects = effects


_operations: dict[str, Operation] = {}


def operation(name: str, *, effects: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function `(op, input) -> JSON` under the name. The last registration of a name holds, so that
    a rehearsal can stand in for any operation."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _operations[name] = Operation(name, function, effects)
        return function

    return register


def find_operation(name: str) -> Operation:
    """The operation of that name. Raises `Refused` when none is registered."""
    found = _operations.get(name)
    if found is None:
        raise Refused(f"No operation {name!r} is registered.", hint="Import the notation that defines it.")
    return found
