"""The process of a detached run: waits in place for answers."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import RUN_ARGUMENT, change_of, change_options, edit_options, settings_of


@click.command(hidden=True)
@RUN_ARGUMENT
@edit_options
@change_options
@click.pass_context
def execute_detached(context: click.Context, /, run: str, **change: Any) -> int:
    """Execute a run in the background."""
    import asyncio

    from perdure.service.find import find_run
    from perdure.service.running import EXIT_CODES, execute
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        result = execute(state, find_run(state, run), park=False, change=change_of(change))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    finally:
        state.close()
    return EXIT_CODES[result.status]
