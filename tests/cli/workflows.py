"""Workflows that the tests of the command line run, and how they wait for what other processes do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.disk.process import started_at as process_start

HELLO = "digraph hello { start [shape=Mdiamond] exit [shape=Msquare] hi [shape=parallelogram, script=%s] start -> hi -> exit }"
GATED = """digraph gated {
    start [shape=Mdiamond] exit [shape=Msquare]
    before [shape=parallelogram, script="echo before >> $PWD/count"]
    gate [shape=hexagon, label="Go on?"]
    after [shape=parallelogram, script="echo after >> $PWD/count"]
    start -> before -> gate
    gate -> after [label="[Y] Yes"]
    gate -> exit [label="[N] No"]
    after -> exit
}"""


def only_run(perdure: Perdure) -> dict[str, object]:
    [run] = perdure("ps", "-a", "--json").succeeded().json
    return run  # type: ignore[no-any-return]


def until(check: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Until it holds, or the test fails."""
    deadline = time.monotonic() + limit_s
    while not check():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)


def is_gone(pid_file: Path) -> bool:
    """Whether the process whose pid a file holds does nothing any more."""
    return process_start(int(pid_file.read_text())) is None


def heed_interrupts() -> None:
    """In the new process: Ctrl-C counts, also when the tests themselves were started in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(
    perdure: Perdure, workflow: Path, *flags: str, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A run in a process of its own, in a session of its own; `env` is added to this one's."""
    return subprocess.Popen(
        [sys.executable, "-m", "perdure.cli.entry", "run", str(workflow), *flags],
        cwd=workflow.parent,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - one thread
    )
