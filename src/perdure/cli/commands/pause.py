"""perdure pause: let a run stop after the step that it is at."""

from __future__ import annotations

import os

import click

from perdure.cli.options import RUN_ARGUMENT, settings_of
from perdure.cli.output import say


@click.command()
@RUN_ARGUMENT
@click.pass_context
def pause(context: click.Context, run: str) -> int:
    """Ask a run to stop after the step that it is at; `resume` goes on."""
    from perdure.service import asking
    from perdure.service.find import find_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        asking.request(state, row, "pause", {"reason": "paused on request"})
    finally:
        state.close()
    say(f"Asked; the run pauses after its present step. `perdure resume {row.run_id[:12]}` goes on.")
    return 0
