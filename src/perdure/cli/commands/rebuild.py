"""perdure rebuild: either half of the state from the other."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import print_json, say, tell


@click.command()
@click.argument("run", required=False, metavar="[RUN]")
@click.option(
    "--store", "from_directories", is_flag=True, help="Make a lost state.sqlite again from the run directories."
)
@JSON_OPTION
@click.pass_context
def rebuild(context: click.Context, run: str | None, from_directories: bool, as_json: bool) -> int:
    """Make a run's directory again from the log, or with --store the log from the run directories."""
    from perdure.service.find import find_run
    from perdure.service.keeping import rebuild_run, rebuild_store
    from perdure.service.state import open_state

    if bool(run) == from_directories:
        raise click.UsageError("Name a RUN, or pass --store.")
    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        if run:
            row = find_run(state, run)
            result: dict[str, Any] = {
                "run_id": row.run_id,
                "files": rebuild_run(state, row),
                "run_dir": state.run_dir(row),
            }
        else:
            result = rebuild_store(state)
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json(result)
    elif run:
        say(f"{result['files']} files in {result['run_dir']}")
    else:
        for problem in result["problems"]:
            tell(f"warn: {problem}")
        say(f"{len(result['taken'])} runs were taken in.")
    return 0
