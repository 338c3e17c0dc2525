"""What `run` and `resume` have in common: progress, questions, the result and its exit code."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.cli.output import choices_of, duration, indented, one_line, print_error, print_json, say, tell
from perdure.cli.progress import Progress
from perdure.cli.terminal import TerminalInterviewer, is_interactive
from perdure.service.running import EXIT_CODES

if TYPE_CHECKING:
    from perdure.cli.main import Settings
    from perdure.kernel.ending import RunResult
    from perdure.kernel.interviewer import Interviewer
    from perdure.service.state import State


_STOPPING = b"\nStopping; once more stops at once.\n"
_STOPPED = b"\nStopped at once; `perdure resume` goes on.\n"


class Answering(NamedTuple):
    """The file that answers come from, and the file that they are written into; "" for none."""

    answers: str = ""
    record: str = ""


NOTHING = Answering()


def interviewers_of(answers: str, *others: Interviewer) -> list[Interviewer]:
    """The file of answers first, when there is one, then the others. Raises `BadAnswers`."""
    if not answers:
        return list(others)
    from perdure.kernel.interviewer import InOrder
    from perdure.service.answers import FileInterviewer, read_answers

    return [InOrder([FileInterviewer(read_answers(answers), lambda text: tell(f"warn: {text}")), *others])]


def attended(
    state: State,
    call: Callable[..., RunResult],
    settings: Settings,
    *,
    as_json: bool,
    answering: Answering = NOTHING,
    show: Callable[[RunResult], None] | None = None,
) -> int:
    """Execute with progress and, at a terminal, questions; print the result, or `show` it otherwise; the exit code.

    `call` takes `interviewers`, `watch` and `on_signal`."""
    quiet = settings.quiet
    progress = Progress(quiet=quiet or as_json, verbose=settings.verbose)
    at_terminal = [TerminalInterviewer(progress)] if is_interactive() and not as_json else []
    interviewers = interviewers_of(answering.answers, *at_terminal)
    made: list[str] = []

    def watch(run_id: str) -> Progress:
        made.append(run_id)
        return progress

    try:
        result = call(interviewers=interviewers, watch=watch, on_signal=None if quiet or as_json else _on_signal)
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.end()
        return _interrupted(made[0] if made else None, as_json=as_json)
    finally:
        progress.end()
        if answering.record and made:
            _record(state, made[0], answering.record)
    if show is not None:
        show(result)
    else:
        print_result(state, result, as_json=as_json, quiet=quiet)
    return EXIT_CODES[result.status]


def _record(state: State, run_id: str, path: str) -> None:
    from perdure.service.answers import record_answers

    row = state.store.find_run(run_id)
    if row is not None:
        record_answers(state, row, path)


def _on_signal(count: int) -> None:
    # This may come in the middle of a print, so it goes past the stream.
    os.write(2, _STOPPING if count == 1 else _STOPPED)


def _interrupted(run_id: str | None, *, as_json: bool) -> int:
    if run_id is None:
        text, hint = "Interrupted; no run was made.", None
    else:
        text, hint = "Interrupted. The run is paused.", f"`perdure resume {run_id}` goes on."
    if as_json:
        print_error("interrupted", text, hint)
    else:
        tell(f"{text} {hint or ''}".rstrip())
    return 130


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
        say(f"  Failure   {indented(str(failure.get('message')))}")
    output = shown.get("output")
    last = output.get("last_response") if isinstance(output, dict) else None
    if last:
        say(f"  Output    {one_line(str(last), 200)}")
    for question in shown.get("questions") or []:
        if not question["answered"]:
            choices = choices_of(question)
            say(f"\n  Waits for a person: {question['text']}")
            say(
                f"  Answer with  perdure answer {shown['run_id'][:12]} {choices}   then  perdure resume {shown['run_id'][:12]}"
            )
