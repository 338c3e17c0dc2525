"""What is measured: no-op steps on the engine as the service wires it, with its views."""

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

from noops import Bench

from perdure.kernel.engine import Engine
from perdure.service.running import new_engine
from perdure.service.state import State, open_state


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
    else:
        asyncio.run(engine.run(Bench(steps, "bench.noop")))
        print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1))
    state.close()


if __name__ == "__main__":
    main()
