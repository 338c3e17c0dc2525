"""perdure export: a run as files."""

from __future__ import annotations

import os

import click

from perdure.cli.options import RUN_ARGUMENT, settings_of
from perdure.cli.output import say


@click.command()
@RUN_ARGUMENT
@click.option("-o", "--output", required=True, metavar="DIR", help="A new or empty folder.")
@click.pass_context
def export(context: click.Context, run: str, output: str) -> int:
    """Copy a run as files into a new folder: its directory made anew from the log, and its blobs."""
    from perdure.service.find import find_run
    from perdure.service.keeping import export_run
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        count = export_run(state, find_run(state, run), os.path.abspath(output))
    finally:
        state.close()
    say(f"{count} files in {output}")
    return 0
