"""perdure steer: say something to a run's next agent."""

from __future__ import annotations

import os

import click

from perdure.cli.options import RUN_ARGUMENT, settings_of
from perdure.cli.output import say


@click.command()
@RUN_ARGUMENT
@click.argument("text")
@click.pass_context
def steer(context: click.Context, run: str, text: str) -> int:
    """Say something to a run: its next agent gets it with its prompt."""
    from perdure.service import asking
    from perdure.service.find import find_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        asking.request(state, find_run(state, run), "steer", {"text": text})
    finally:
        state.close()
    say("Said; the run's next agent gets it.")
    return 0
