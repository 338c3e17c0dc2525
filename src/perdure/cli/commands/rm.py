"""perdure rm: remove runs."""

from __future__ import annotations

import os

import click

from perdure.cli.options import settings_of
from perdure.cli.output import say, tell


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-f", "--force", is_flag=True, help="Runs that are not settled too, with uncommitted work.")
@click.pass_context
def rm(context: click.Context, runs: tuple[str, ...], force: bool) -> int:
    """Remove settled runs with their directories. Their branches in Git stay. Goes on past one that cannot be removed."""
    from perdure.base.errors import PerdureError
    from perdure.service.find import find_run
    from perdure.service.keeping import remove_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    worst = 0
    try:
        for run in runs:
            try:
                row = find_run(state, run)
                remove_run(state, row, force=force)
            except PerdureError as error:
                tell(f"error: {error}")
                worst = max(worst, error.exit_code)
            else:
                say(row.run_id)
    finally:
        state.close()
    return worst
