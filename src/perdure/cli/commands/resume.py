"""perdure resume: go on from the last finished step."""

from __future__ import annotations

import os

import click

from perdure.cli.options import (
    JSON_OPTION,
    RUN_ARGUMENT,
    backend_of,
    backend_options,
    flags_of,
    settings_of,
    wants_json,
)
from perdure.cli.output import print_json, say, tell


@click.command()
@RUN_ARGUMENT
@click.option("-d", "--detach", is_flag=True, help="Go on in a process of its own.")
@click.option("--accept-changes", is_flag=True, help="Go on with the edited workflow file, and with what was recorded.")
@click.option("--keep-recorded", is_flag=True, help="Go on with the workflow as it was recorded.")
@backend_options
@JSON_OPTION
@click.pass_context
def resume(
    context: click.Context,
    /,
    run: str,
    detach: bool,
    accept_changes: bool,
    keep_recorded: bool,
    as_json: bool,
    **backend: str,
) -> int:
    """Go on with a run that was interrupted, paused, or waits: RUN is an id, its beginning, a run folder, or a name.

    A finished step never runs again. Exactly one of several that try goes on; the others exit with 5.
    """
    from perdure.cli.executing import attended
    from perdure.service.find import find_run
    from perdure.service.running import execute
    from perdure.service.state import open_state

    settings = settings_of(context)
    as_json = wants_json(context, as_json)
    state = open_state(settings.state_dir, os.environ)
    try:
        row = find_run(state, run)
        if detach:
            from perdure.service.detaching import detach as detach_run

            flags = ["--accept-changes"] * accept_changes + ["--keep-recorded"] * keep_recorded + flags_of(backend)
            pid = detach_run(state, row.run_id, flags)
            print_json({"run_id": row.run_id, "pid": pid}) if as_json else say(row.run_id)
            return 0
        if not settings.quiet and not as_json:
            tell(f"{row.name}  {row.run_id}")
        return attended(
            state,
            lambda **more: execute(
                state,
                row,
                accept_changes=accept_changes,
                keep_recorded=keep_recorded,
                backend=backend_of(backend),
                **more,
            ),
            quiet=settings.quiet,
            as_json=as_json,
        )
    finally:
        state.close()
