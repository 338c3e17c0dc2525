"""perdure df: what takes up space."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import print_json, say, table

_DAYS = 30
_DAY_MS = 86_400_000


@click.command()
@JSON_OPTION
@click.pass_context
def df(context: click.Context, as_json: bool) -> int:
    """Show what the state holds, and what `perdure prune` would give back of runs that were settled over 30 days ago."""
    from perdure.base.ids import now_ms
    from perdure.service.state import open_state_to_read
    from perdure.service.usage import usage_of

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        found = usage_of(state, now_ms() - _DAYS * _DAY_MS)
        root = state.home.root
    finally:
        state.close()
    total = sum(each.bytes for each in found)
    reclaimable = sum(each.reclaimable for each in found)
    if wants_json(context, as_json):
        print_json({"state_home": root, "bytes": total, "reclaimable": reclaimable, "parts": found})
        return 0
    rows = [[each.name, str(each.count), _mega(each.bytes), _mega(each.reclaimable), each.what] for each in found]
    table(rows, ["PART", "COUNT", "SIZE", "RECLAIMABLE", "WHAT"])
    say(f"{_mega(total)} in {root}" + (f"; `perdure prune` gives {_mega(reclaimable)} back." if reclaimable else "."))
    return 0


def _mega(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
