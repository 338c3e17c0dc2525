"""perdure inspect: a run's records."""

from __future__ import annotations

import os

import click

from perdure.cli.options import settings_of
from perdure.cli.output import print_json


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.pass_context
def inspect(context: click.Context, runs: tuple[str, ...]) -> int:
    """Print the records of runs as a JSON list: run, start, conclusion, checkpoint."""
    from perdure.service.find import find_run
    from perdure.service.showing import inspect_run
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        print_json([inspect_run(state, find_run(state, run)) for run in runs])
    finally:
        state.close()
    return 0
