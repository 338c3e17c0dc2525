"""perdure prune: remove old settled runs, and conversations beyond their bounds."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, pairs, settings_of, wants_json
from perdure.cli.output import print_json, say, tell

_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@click.command()
@click.option(
    "--older-than",
    default="30d",
    show_default=True,
    metavar="TIME",
    help="Settled longer ago than this, like 24h or 30d.",
)
@click.option("--workflow", default="", metavar="NAME", help="Runs of this workflow only.")
@click.option("--label", "labels", multiple=True, callback=pairs, metavar="K=V", help="Runs with this label only.")
@click.option("--yes", is_flag=True, help="Remove them; without it they are only shown.")
@JSON_OPTION
@click.pass_context
def prune(
    context: click.Context, older_than: str, workflow: str, labels: dict[str, str], yes: bool, as_json: bool
) -> int:
    """Show, or with --yes remove, runs that were settled long ago. Waiting and paused runs are never touched.

    Conversations of agents that take more room than they may go too, the oldest first, whatever the other options say."""
    from perdure.base.errors import Refused
    from perdure.base.ids import now_ms
    from perdure.service import removal, sessions
    from perdure.service.capacity import machine_limits
    from perdure.service.state import open_state, open_state_to_read

    unit = _UNITS.get(older_than[-1:])
    if unit is None or not older_than[:-1].isdigit():
        raise Refused(f"{older_than!r} is no time span.", hint="Write one like 24h or 30d.")
    wanted = removal.Wanted(now_ms() - int(older_than[:-1]) * unit, workflow, labels)
    # Showing makes nothing, not even the state.
    state = (open_state if yes else open_state_to_read)(settings_of(context).state_dir, os.environ)
    kept: list[str] = []
    try:
        found = removal.prunable(state, wanted)
        if yes:
            found, kept = removal.prune(state, found)
        collected = sessions.collect_sessions(state, machine_limits(state.home).agent_sessions, dry_run=not yes)
    finally:
        state.close()
    for reason in [*kept, *collected.kept]:
        tell(f"warn: {reason}")
    if wants_json(context, as_json):
        gone = [{"session_id": each.session_id, "bytes": each.size} for each in collected.removed]
        print_json({"removed": yes, "runs": found, "sessions": gone})
        return 0
    for each in found:
        say(f"{each['run_id']}  {each['name']}  {each['status']}  {each['bytes'] / 1e6:.1f} MB")
    total = sum(each["bytes"] for each in found) / 1e6
    text = f"{'Removed' if yes else 'Would remove'} {len(found)} runs, {total:.1f} MB."
    if collected.removed:
        text += f" Sessions: {len(collected.removed)}, {sum(each.size for each in collected.removed) / 1e6:.1f} MB."
    say(text + ("" if yes or not (found or collected.removed) else " Pass --yes to do it."))
    return 0
