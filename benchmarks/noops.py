"""The definition that is measured: no-op steps.

`bench.noop` is an operation without effects (its start and its end share a commit), `bench.effect` one with them (its start is durable
before it begins).
"""

from __future__ import annotations

import os
import signal
from typing import Any

from perdure.kernel import definition as definitions
from perdure.kernel.operation import operation
from perdure.kernel.outcome import Outcome


@operation("bench.noop", effects=False)
def noop(_op: Any, input: Any) -> Any:
    return {"i": input}


@operation("bench.effect")
def effect(_op: Any, input: Any) -> Any:
    return {"i": input}


class Bench:
    """A definition of so many steps, one after the other or in branches."""

    kind = "bench"
    name = "bench"

    def __init__(self, count: int, operation: str, at_once: int = 1, kill_at: int = 0) -> None:
        self.count, self.operation, self.at_once, self.kill_at = count, operation, at_once, kill_at

    def body(self) -> dict[str, Any]:
        return {"count": self.count, "operation": self.operation, "at_once": self.at_once}

    def start_properties(self, run_id: str) -> dict[str, Any]:
        return {}

    async def interpret(self, run: Any) -> Outcome:
        if self.at_once > 1:
            await run.gather([self._branch(run, i) for i in range(self.count)], self.at_once)
            return Outcome("succeeded")
        for i in range(self.count):
            if self.kill_at and i == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            await run.step("step", self.operation, i)
        return Outcome("succeeded")

    def _branch(self, run: Any, number: int) -> Any:
        async def branch() -> None:
            await run.scope("branch").step("step", self.operation, number)

        return branch


definitions.register("bench", lambda body: Bench(**body))
