"""perdure settings: what holds, and why."""

from __future__ import annotations

import json
import os

import click

from perdure.cli.options import JSON_OPTION, current_folder, settings_of, wants_json
from perdure.cli.output import escaped, print_json, table


@click.command()
@click.argument("workflow", required=False, metavar="[WORKFLOW]")
@JSON_OPTION
@click.pass_context
def settings(context: click.Context, workflow: str | None, as_json: bool) -> int:
    """Print the settings that hold in this folder, or for a workflow, and where each comes from. Secrets are masked."""
    from perdure.disk.home import find_state_home
    from perdure.service.settings import effective, layers_for
    from perdure.service.state import open_state_to_read
    from perdure.service.workflows import find_workflow

    given = settings_of(context).state_dir
    home = find_state_home(given, os.environ)
    path = find_workflow(workflow, current_folder(), home) if workflow else None
    state = open_state_to_read(given, os.environ)
    try:
        found = effective(layers_for(path, home, current_folder()), home, given, os.environ, state.masker())
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json(found)
        return 0
    rows = [[each.key, _shown(each.value), escaped(each.source)] for each in found]
    table(rows, ["SETTING", "VALUE", "FROM"])
    return 0


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return escaped(" ".join(text.split()))
