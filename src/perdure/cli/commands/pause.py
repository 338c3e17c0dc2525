"""perdure pause: let a run stop after the step that it is at."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.command()
@RUN_ARGUMENT
@JSON_OPTION
@click.pass_context
def pause(context: click.Context, run: str, as_json: bool) -> int:
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
    if wants_json(context, as_json):
        print_json({"run_id": row.run_id, "requested": "pause"})
        return 0
    say(f"Asked; the run pauses after its present step. `perdure resume {row.run_id[:12]}` goes on.")
    return 0
