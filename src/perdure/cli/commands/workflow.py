"""perdure workflow list: workflows by name."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, current_folder, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.group()
def workflow() -> None:
    """Workflows of this project and of this person."""


@workflow.command("list")
@JSON_OPTION
@click.pass_context
def list_workflows(context: click.Context, as_json: bool) -> int:
    """List workflows that `run NAME` finds from here."""
    from perdure.disk.home import find_state_home
    from perdure.service.workflows import known_workflows

    found = known_workflows(current_folder(), find_state_home(settings_of(context).state_dir, os.environ))
    if wants_json(context, as_json):
        print_json([{"name": name, "path": path} for name, path in found])
    for name, path in found if not wants_json(context, as_json) else []:
        say(f"{name}  {path}")
    return 0
