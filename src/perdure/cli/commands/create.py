"""perdure create: make a run without starting it."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import request_of, settings_of, wants_json, workflow_options
from perdure.cli.output import print_json, say, tell


@click.command()
@workflow_options
@click.pass_context
def create(context: click.Context, /, as_json: bool, **values: Any) -> int:
    """Make a run without starting it; prints its id."""
    from perdure.disk.home import find_state_home
    from perdure.service.running import submit
    from perdure.service.state import open_state
    from perdure.service.workflows import prepare

    settings = settings_of(context)
    prepared = prepare(request_of(values), find_state_home(settings.state_dir, os.environ))
    state = open_state(settings.state_dir, os.environ)
    try:
        run_id = submit(state, prepared)
    finally:
        state.close()
    for notice in prepared.notices:
        tell(f"warn: {notice}")
    if wants_json(context, as_json):
        print_json({"run_id": run_id, "name": prepared.definition.name, "status": "submitted"})
    else:
        say(run_id)
    return 0
