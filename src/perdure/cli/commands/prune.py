"""perdure prune: remove old settled runs."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import print_json, say

_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@click.command()
@click.option(
    "--older-than",
    default="30d",
    show_default=True,
    metavar="TIME",
    help="Settled longer ago than this, like 24h or 30d.",
)
@click.option("--yes", is_flag=True, help="Remove them; without it they are only shown.")
@JSON_OPTION
@click.pass_context
def prune(context: click.Context, older_than: str, yes: bool, as_json: bool) -> int:
    """Show, or with --yes remove, runs that were settled long ago. Waiting and paused runs are never touched."""
    from perdure.base.errors import Refused
    from perdure.base.ids import now_ms
    from perdure.service.find import find_run
    from perdure.service.keeping import prunable, remove_run
    from perdure.service.state import open_state

    unit = _UNITS.get(older_than[-1:])
    if unit is None or not older_than[:-1].isdigit():
        raise Refused(f"{older_than!r} is no time span.", hint="Write one like 24h or 30d.")
    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        found = prunable(state, int(older_than[:-1]) * unit, now_ms())
        for each in found if yes else []:
            remove_run(state, find_run(state, each["run_id"]), force=False)
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json({"removed": yes, "runs": found})
        return 0
    for each in found:
        say(f"{each['run_id']}  {each['name']}  {each['status']}  {each['bytes'] / 1e6:.1f} MB")
    total = sum(each["bytes"] for each in found) / 1e6
    say(
        f"{'Removed' if yes else 'Would remove'} {len(found)} runs, {total:.1f} MB."
        + ("" if yes or not found else " Pass --yes to do it.")
    )
    return 0
