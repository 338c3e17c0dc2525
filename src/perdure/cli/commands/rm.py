"""perdure rm: remove runs."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import print_error, print_json, say, tell


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-f", "--force", is_flag=True, help="Runs that are not settled too, with uncommitted work.")
@JSON_OPTION
@click.pass_context
def rm(context: click.Context, runs: tuple[str, ...], force: bool, as_json: bool) -> int:
    """Remove settled runs with their directories. Their branches in Git stay. Goes on past one that cannot be removed."""
    from perdure.base.errors import PerdureError
    from perdure.service.find import find_run
    from perdure.service.removal import remove_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    as_json = wants_json(context, as_json)
    worst = 0
    removed: list[str] = []
    try:
        for run in runs:
            try:
                row = find_run(state, run)
                remove_run(state, row, force=force)
            except PerdureError as error:
                print_error(error.code, error.message, error.hint) if as_json else tell(f"error: {error}")
                worst = max(worst, error.exit_code)
            else:
                removed.append(row.run_id)
                if not as_json:
                    say(row.run_id)
    finally:
        state.close()
    if as_json:
        print_json({"removed": removed})
    return worst
