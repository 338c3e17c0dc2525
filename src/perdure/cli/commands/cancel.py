"""perdure cancel: end a run and its processes."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.command()
@RUN_ARGUMENT
@click.option("--reason", default="cancelled on request", help="What the log says of it.")
@click.option(
    "--timeout", type=float, default=30.0, show_default=True, metavar="S", help="How long to wait for its end."
)
@JSON_OPTION
@click.pass_context
def cancel(context: click.Context, run: str, reason: str, timeout: float, as_json: bool) -> int:
    """End a run. Returns when its processes are gone; a run that nobody executes is settled at once."""
    from perdure.service import asking
    from perdure.service.find import find_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        status = asking.cancel(state, row, reason, timeout)
    finally:
        state.close()
    print_json({"run_id": row.run_id, "status": status}) if wants_json(context, as_json) else say(
        f"{status}  {row.run_id}"
    )
    return 0
