"""The process of a detached run: waits in place for answers."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import RUN_ARGUMENT, answer_options, change_of, change_options, edit_options, settings_of


@click.command(hidden=True)
@RUN_ARGUMENT
@answer_options
@edit_options
@change_options
@click.pass_context
def execute_detached(context: click.Context, /, run: str, answers: str, record_answers: str, **change: Any) -> int:
    """Execute a run in the background."""
    import asyncio

    from perdure.cli.executing import interviewers_of
    from perdure.service.answers import record_answers as write_answers
    from perdure.service.find import find_run
    from perdure.service.running import EXIT_CODES, execute
    from perdure.service.state import open_state

    row = None
    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        found = interviewers_of(answers)
        result = execute(state, row, park=False, interviewers=found, change=change_of(change))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    finally:
        if record_answers and row is not None:
            write_answers(state, row, record_answers)
        state.close()
    return EXIT_CODES[result.status]
