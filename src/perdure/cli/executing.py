"""What `run` and `resume` have in common: progress, questions, the result and its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.cli.output import duration, one_line, print_json, say, tell
from perdure.cli.progress import Progress
from perdure.cli.terminal import TerminalInterviewer, is_interactive
from perdure.service.running import EXIT_CODES

if TYPE_CHECKING:
    from perdure.kernel.ending import RunResult
    from perdure.service.state import State


def attended(state: State, call: Callable[..., RunResult], *, quiet: bool, as_json: bool) -> int:
    """Execute with progress and, at a terminal, questions; print the result; the exit code.

    `call` takes `interviewers` and `watch`."""
    progress = Progress(quiet=quiet or as_json)
    interviewers = [TerminalInterviewer(progress)] if is_interactive() and not as_json else []
    made: list[str] = []

    def watch(run_id: str) -> Progress:
        made.append(run_id)
        return progress

    try:
        result = call(interviewers=interviewers, watch=watch)
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.end()
        run_id = made[0] if made else ""
        tell(f"\nInterrupted. The run is paused; `perdure resume {run_id}` goes on.")
        return 130
    finally:
        progress.end()
    print_result(state, result, as_json=as_json, quiet=quiet)
    return EXIT_CODES[result.status]


def print_result(state: State, result: RunResult, *, as_json: bool, quiet: bool = False) -> None:
    """How the execution ended."""
    from perdure.service.showing import show_run

    row = state.store.find_run(result.run_id)
    assert row is not None
    shown = show_run(state, row)
    if as_json:
        keys = (
            "run_id",
            "name",
            "kind",
            "status",
            "status_reason",
            "started_at",
            "duration_ms",
            "run_dir",
            "questions",
            "failure",
            "output",
        )
        print_json({key: shown.get(key) for key in keys} | {"reason": result.reason})
        return
    print_summary(shown, quiet=quiet)
    if result.status == "paused" and result.reason:
        tell(f"  Paused: {result.reason}")


def print_summary(shown: dict[str, Any], *, quiet: bool = False) -> None:
    """The block at the end of a run."""
    if quiet:
        say(f"{shown['run_id']} {shown['status']}")
        return
    say()
    say(f"  Run       {shown['run_id']}")
    say(f"  Status    {shown['status'].upper()}")
    say(f"  Duration  {duration(shown.get('duration_ms'))}")
    say(f"  Files     {shown['run_dir']}")
    if shown.get("run_branch"):
        say(f"  Branch    {shown['run_branch']}")
    failure = shown.get("failure")
    if isinstance(failure, dict):
        say(f"  Failure   {failure.get('message')}")
    output = shown.get("output")
    last = output.get("last_response") if isinstance(output, dict) else None
    if last:
        say(f"  Output    {one_line(str(last), 200)}")
    for question in shown.get("questions") or []:
        if not question["answered"]:
            choices = " | ".join(f"{option['key']}" for option in question.get("options") or []) or "TEXT"
            say(f"\n  Waits for a person: {question['text']}")
            say(
                f"  Answer with  perdure answer {shown['run_id'][:12]} {choices}   then  perdure resume {shown['run_id'][:12]}"
            )
