"""perdure diff: what a run changed."""

from __future__ import annotations

import os
import sys

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json


@click.command()
@RUN_ARGUMENT
@click.option("--node", metavar="NODE", help="What one node changed: NODE, or NODE@N for its N-th visit.")
@click.option("--stat", is_flag=True, help="Which files, and how much.")
@click.option("--shortstat", is_flag=True, help="How much in all.")
@JSON_OPTION
@click.pass_context
def diff(context: click.Context, run: str, node: str | None, stat: bool, shortstat: bool, as_json: bool) -> int:
    """Show what a run changed in its repository, from its first commit to its last."""
    from perdure.service.changes import changes_of
    from perdure.service.find import find_run
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        text = changes_of(state, row, node=node, stat=stat, short=shortstat)
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json({"run_id": row.run_id, "diff": text.decode("utf-8", "replace")})
        return 0
    sys.stdout.buffer.write(text)
    sys.stdout.flush()
    return 0
