"""perdure start: start a run that was made."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, change_options, flags_of, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.command()
@RUN_ARGUMENT
@change_options
@JSON_OPTION
@click.pass_context
def start(context: click.Context, /, run: str, as_json: bool, **change: Any) -> int:
    """Start a run that was made with `create`, in a process of its own."""
    from perdure.base.errors import Refused
    from perdure.service.detaching import detach
    from perdure.service.find import find_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        if row.status != "submitted":
            raise Refused(
                f"Run {row.run_id} is {row.status}, not submitted.", hint="`perdure resume` goes on with a run."
            )
        pid = detach(state, row, flags_of(change))
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json({"run_id": row.run_id, "pid": pid})
    else:
        say(row.run_id)
    return 0
