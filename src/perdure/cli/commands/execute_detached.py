"""The process of a detached run: waits in place for answers."""

from __future__ import annotations

import os

import click

from perdure.cli.options import RUN_ARGUMENT, backend_of, backend_options, settings_of


@click.command(hidden=True)
@RUN_ARGUMENT
@click.option("--accept-changes", is_flag=True)
@click.option("--keep-recorded", is_flag=True)
@backend_options
@click.pass_context
def execute_detached(
    context: click.Context, /, run: str, accept_changes: bool, keep_recorded: bool, **backend: str
) -> int:
    """Execute a run in the background."""
    import asyncio

    from perdure.service.find import find_run
    from perdure.service.running import EXIT_CODES, execute
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        result = execute(
            state,
            row,
            park=False,
            accept_changes=accept_changes,
            keep_recorded=keep_recorded,
            backend=backend_of(backend),
        )
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    finally:
        state.close()
    return EXIT_CODES[result.status]
