"""perdure wait: wait until a run is settled."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import duration, print_json, say


@click.command()
@RUN_ARGUMENT
@click.option("--timeout", type=float, metavar="S", help="Stop waiting after so many seconds, and exit with 3.")
@click.option("--interval", type=int, default=100, show_default=True, metavar="MS", help="How often to look.")
@JSON_OPTION
@click.pass_context
def wait(context: click.Context, run: str, timeout: float | None, interval: int, as_json: bool) -> int:
    """Wait until a run is settled: 0 when it succeeded, 1 when it failed, 2 when it was cancelled."""
    from perdure.service.asking import wait_until_settled
    from perdure.service.find import find_run
    from perdure.service.listing import described
    from perdure.service.running import EXIT_CODES
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        status = wait_until_settled(state, row.run_id, timeout, interval / 1000)
        found = state.store.find_run(row.run_id)
        assert found is not None
        shown = described(found)
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json({key: shown[key] for key in ("run_id", "name", "status", "duration_ms")})
    else:
        say(f"{status}  {row.run_id}  {duration(shown['duration_ms'])}")
    return EXIT_CODES[status]
