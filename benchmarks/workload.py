"""What is measured: definitions of no-op steps on the engine as the service wires it, with its views.

`bench.noop` is an operation without effects (its start and its end share a commit), `bench.effect` one with them (its start is durable
before it begins).
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from perdure.kernel import definition as definitions
from perdure.kernel.engine import Engine
from perdure.kernel.operation import operation
from perdure.kernel.outcome import Outcome
from perdure.service.running import new_engine
from perdure.service.state import State, open_state


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


def _opened(folder: Path, durability: str) -> State:
    os.environ["PERDURE_DURABILITY"] = durability
    return open_state(str(folder), {"PERDURE_DURABILITY": durability})


def _measured(folder: Path, durability: str, call: Any) -> float:
    state_dir = folder / "state"
    shutil.rmtree(state_dir, ignore_errors=True)
    state = _opened(state_dir, durability)
    engine = new_engine(state, park=True)

    async def timed() -> float:
        begun = time.perf_counter()
        await call(engine)
        return time.perf_counter() - begun

    try:
        return asyncio.run(timed())
    finally:
        state.close()


def sequential(folder: Path, count: int, operation: str, durability: str) -> float:
    """Steps a second, one after the other in one run."""
    return count / _measured(folder, durability, lambda engine: engine.run(Bench(count, operation)))


def fan_out(folder: Path, count: int, at_once: int, durability: str) -> float:
    """Steps a second, so many at once in one run."""
    return count / _measured(folder, durability, lambda engine: engine.run(Bench(count, "bench.noop", at_once)))


def small_runs(folder: Path, runs: int, steps: int, durability: str) -> float:
    """Runs a second, 64 at once in one process."""

    async def all_runs(engine: Engine) -> None:
        turn = iter(range(runs))

        async def worker() -> None:
            for _ in turn:
                await engine.run(Bench(steps, "bench.noop"))

        await asyncio.gather(*(worker() for _ in range(64)))

    return runs / _measured(folder, durability, all_runs)


def bytes_per_step(folder: Path, steps: int) -> int:
    """What stays on disk for a step: the database and the run's log."""
    sequential(folder, steps, "bench.noop", "normal")
    state = folder / "state"
    return (
        sum(
            path.stat().st_size
            for path in state.rglob("*")
            if path.is_file() and not path.name.endswith(("-wal", "-shm"))
        )
        // steps
    )


def make_finished_runs(folder: Path, count: int) -> None:
    """A state with so many settled runs; only its database, as listings read nothing else."""
    from perdure.base import ids

    state = _opened(folder, "normal")
    db = state.store._db
    record = '{"goal":"Ship the discount fix","labels":{},"workflow_slug":"ship","working_directory":"/work","duration_ms":1234,"reason":"completed"}'
    db.execute("begin")
    for number in range(count):
        run_id = ids.new_ulid()
        db.execute(
            "insert into runs (run_id, name, kind, status, created_at, started_at, settled_at, run_dir, record) values (?,?,?,?,?,?,?,?,?)",
            (
                run_id,
                "ship",
                "graph",
                "succeeded",
                1_700_000_000_000 + number,
                1_700_000_000_001,
                1_700_000_001_000,
                f"{folder}/runs/20260307-{run_id}",
                record,
            ),
        )
    db.execute("commit")
    state.close()


def make_interrupted_run(folder: Path, steps: int, killed_at: int) -> None:
    """A state with a run that was killed in its middle."""
    command = [sys.executable, __file__, "killed", str(folder), str(steps), str(killed_at)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def memory_of(folder: Path, steps: int, environ: dict[str, str]) -> float:
    """Peak resident memory of a whole process, in MB."""
    command = [sys.executable, __file__, "memory", str(folder), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return float(done.stdout)


def main() -> None:
    what, folder, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    state = _opened(folder, "normal")
    engine = new_engine(state, park=True)
    if what == "killed":
        asyncio.run(engine.run(Bench(steps, "bench.noop", kill_at=int(sys.argv[4]))))
    elif what == "recover":
        [row] = state.store.list_runs(open_only=True)
        result = asyncio.run(engine.execute(row.run_id))
        assert result.status == "succeeded"
    else:
        asyncio.run(engine.run(Bench(steps, "bench.noop")))
        print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1))
    state.close()


if __name__ == "__main__":
    main()
