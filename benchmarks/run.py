"""The benchmarks: figures of Perdure beside the floor, which is the same number of commits through bare `sqlite3`.

    python benchmarks/run.py [--quick] [--output FILE]

Prints a table and writes `{"metrics": {NAME: {"value", "unit", "floor", "settings"}}}`. Ratios to the floor of the same run count; absolute
figures are of one machine on one day. Everything runs with the views written, as a person runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import sessions  # noqa: E402
import workload  # noqa: E402

Metric = dict[str, Any]


def floor_rate(folder: Path, commits: int, durability: str, rows: int = 1) -> float:
    """Commits a second through bare sqlite3, each of `rows` small rows."""
    path = folder / f"floor-{durability}-{rows}-{commits}.sqlite"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute(f"pragma synchronous = {durability}")
    db.execute("create table event (run integer, seq integer, body text)")
    begun = time.perf_counter()
    for seq in range(commits):
        db.execute("begin immediate")
        for row in range(rows):
            db.execute("insert into event values (1, ?, ?)", (seq * rows + row, '{"i":1}'))
        db.execute("commit")
    took = time.perf_counter() - begun
    db.close()
    return commits / took


def median_of(measure: Any, times: int) -> float:
    """The median of several measurements."""
    return statistics.median(measure() for _ in range(times))


def in_process(folder: Path, times: int, quick: bool) -> dict[str, Metric]:
    """Steps, fan-out and small runs through the engine of this process."""
    metrics: dict[str, Metric] = {}
    counts = (100, 1_000) if quick else (100, 1_000, 10_000)
    for durability in ("normal", "full"):
        for count in counts:
            if durability == "full" and count == 10_000 and quick:
                continue
            for kind in ("steps", "effect_steps"):
                operation = "bench.noop" if kind == "steps" else "bench.effect"
                rates, floors = [], []
                for _ in range(times):
                    floors.append(floor_rate(folder, count, durability))
                    rates.append(workload.sequential(folder, count, operation, durability))
                metrics[f"{kind}_{count}_{durability}"] = {
                    "value": round(statistics.median(rates)),
                    "unit": "steps/s",
                    "floor": round(statistics.median(floors)),
                    "settings": {"durability": durability, "steps": count, "views": True},
                }
        rates = [workload.fan_out(folder, 1_000, 64, durability) for _ in range(times)]
        # At `normal` the floor commits each step by itself; at `full` it shares commits of 64, as an engine must.
        floors = [
            floor_rate(folder, 1_000, durability)
            if durability == "normal"
            else 64 * floor_rate(folder, 1_000 // 64, durability, 64)
            for _ in range(times)
        ]
        metrics[f"fan_out_{durability}"] = {
            "value": round(statistics.median(rates)),
            "unit": "steps/s",
            "floor": round(statistics.median(floors)),
            "settings": {"durability": durability, "branches": 1_000, "at_once": 64, "views": True},
        }
    runs = 200 if quick else 1_000
    rates = [workload.small_runs(folder, runs, 5, "normal") for _ in range(times)]
    floors = [floor_rate(folder, runs * 5, "normal") / 5 for _ in range(times)]
    metrics["runs_of_5"] = {
        "value": round(statistics.median(rates)),
        "unit": "runs/s",
        "floor": round(statistics.median(floors)),
        "settings": {"durability": "normal", "runs": runs, "at_once": 64, "views": True},
    }
    metrics["bytes_per_step"] = {
        "value": workload.bytes_per_step(folder, 1_000),
        "unit": "bytes",
        "floor": None,
        "settings": {"what": "state.sqlite and progress.jsonl, 1,000 steps"},
    }
    return metrics


def whole_process(folder: Path, times: int, quick: bool) -> dict[str, Metric]:
    """Commands as whole processes, beside `python -c pass`."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"PERDURE_STATE_HOME": str(folder / "cli-state"), "PERDURE_DURABILITY": "normal"}
    perdure = [str(Path(sys.executable).parent / "perdure")]
    listed = folder / "listed"
    runs = 1_000 if quick else 10_000
    workload.make_finished_runs(listed, runs)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (work / "one.fabro").write_text(
        "digraph one { start [shape=Mdiamond] exit [shape=Msquare] "
        'step [shape=parallelogram, script="true"] start -> step -> exit }'
    )
    commands: dict[str, tuple[list[str], dict[str, str]]] = {
        "help": ([*perdure, "--help"], environ),
        "ps": ([*perdure, "ps", "-a", "--json"], environ | {"PERDURE_STATE_HOME": str(listed)}),
        "one_step_run": ([*perdure, "run", "one.fabro"], environ),
    }
    metrics: dict[str, Metric] = {}
    for name, (command, variables) in commands.items():
        ratios, values, floors = [], [], []
        for _ in range(times + 1):
            floors.append(_timed([sys.executable, "-c", "pass"], work, environ))
            values.append(_timed(command, work, variables))
            ratios.append(values[-1] / floors[-1])
        metrics[f"process_{name}"] = {
            "value": round(statistics.median(values) * 1000, 1),
            "unit": "ms",
            "floor": round(statistics.median(floors) * 1000, 1),
            "settings": {
                "floor": "python -c pass",
                "times": round(statistics.median(ratios[1:]), 2),
                "runs_listed": runs,
            },
        }
    values, floors = [], []
    for number in range(times):
        state = folder / f"recovery-{number}"
        workload.make_interrupted_run(state, 1_000, 500)
        floors.append(_timed([sys.executable, "-c", "pass"], work, environ))
        command = [sys.executable, str(HERE / "recover.py"), str(state)]
        values.append(_timed(command, work, environ))
    metrics["process_recovery"] = {
        "value": round(statistics.median(values) * 1000, 1),
        "unit": "ms",
        "floor": round(statistics.median(floors) * 1000, 1),
        "settings": {
            "floor": "python -c pass",
            "times": round(statistics.median(v / f for v, f in zip(values, floors, strict=True)), 2),
            "steps": 1_000,
            "killed_at": 500,
        },
    }
    metrics["memory_10000_steps"] = {
        "value": workload.memory_of(folder / "memory", 10_000, environ),
        "unit": "MB",
        "floor": None,
        "settings": {"what": "peak resident memory of a run of 10,000 steps, as a whole process"},
    }
    return metrics


def _timed(command: list[str], cwd: Path, environ: dict[str, str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took = time.perf_counter() - begun
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return took


def print_table(metrics: dict[str, Metric]) -> None:
    """The figures for people."""
    print(f"{'metric':<28}{'value':>12} {'unit':<9}{'floor':>10}  ratio")
    for name, metric in metrics.items():
        floor = metric["floor"]
        ratio = "" if not floor else f"{metric['value'] / floor:6.2f}"
        print(f"{name:<28}{metric['value']:>12,} {metric['unit']:<9}{floor if floor is not None else '-':>10}  {ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller measurements")
    parser.add_argument("--times", type=int, default=3, help="repeats; the median counts")
    parser.add_argument("--output", default=str(HERE / "results" / "latest.json"))
    parser.add_argument("--only", choices=["engine", "process"], help="one half only")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="perdure-bench-"))
    metrics: dict[str, Metric] = {}
    try:
        if arguments.only != "process":
            metrics |= in_process(folder, arguments.times, arguments.quick)
            metrics |= sessions.session_metrics(folder, arguments.times, arguments.quick)
        if arguments.only != "engine":
            metrics |= whole_process(folder, arguments.times, arguments.quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_table(metrics)
    about = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
    }
    Path(arguments.output).write_text(json.dumps({"metrics": metrics, "about": about}, indent=2) + "\n")


if __name__ == "__main__":
    main()
