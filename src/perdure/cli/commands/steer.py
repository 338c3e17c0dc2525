"""perdure steer: say something to a run's next agent."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.command()
@RUN_ARGUMENT
@click.argument("text")
@JSON_OPTION
@click.pass_context
def steer(context: click.Context, run: str, text: str, as_json: bool) -> int:
    """Say something to a run: its next agent gets it with its prompt."""
    from perdure.service import asking
    from perdure.service.find import find_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        asking.request(state, row, "steer", {"text": text})
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json({"run_id": row.run_id, "requested": "steer"})
        return 0
    say("Said; the run's next agent gets it.")
    return 0
