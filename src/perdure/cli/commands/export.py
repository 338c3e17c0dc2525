"""perdure export: a run as files."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.command()
@RUN_ARGUMENT
@click.option("-o", "--output", required=True, metavar="DIR", help="A new or empty folder.")
@JSON_OPTION
@click.pass_context
def export(context: click.Context, run: str, output: str, as_json: bool) -> int:
    """Copy a run as files into a new folder: its directory made anew from the log, and its blobs."""
    from perdure.service.find import find_run
    from perdure.service.keeping import export_run
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        count = export_run(state, row, os.path.abspath(output))
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json({"run_id": row.run_id, "output": os.path.abspath(output), "files": count})
    else:
        say(f"{count} files in {output}")
    return 0
