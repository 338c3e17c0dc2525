"""perdure resume: go on from the last finished step."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import (
    JSON_OPTION,
    RUN_ARGUMENT,
    answer_flags,
    answer_options,
    change_of,
    change_options,
    edit_options,
    flags_of,
    settings_of,
    wants_json,
)
from perdure.cli.output import print_json, say, tell


@click.command()
@RUN_ARGUMENT
@click.option("-d", "--detach", is_flag=True, help="Go on in a process of its own.")
@answer_options
@edit_options
@change_options
@JSON_OPTION
@click.pass_context
def resume(
    context: click.Context, /, run: str, detach: bool, as_json: bool, answers: str, record_answers: str, **change: Any
) -> int:
    """Go on with a run that was interrupted, paused, or waits: RUN is an id, its beginning, a run folder, or a name.

    A finished step never runs again. Exactly one of several that try goes on; the others exit with 5.
    """
    from perdure.cli.executing import Answering, attended
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

            pid = detach_run(state, row, flags_of(change) + answer_flags(answers, record_answers))
            print_json({"run_id": row.run_id, "pid": pid}) if as_json else say(row.run_id)
            return 0
        if not settings.quiet and not as_json:
            tell(f"{row.name}  {row.run_id}")
        wanted = change_of(change)
        return attended(
            state,
            lambda **more: execute(state, row, change=wanted, **more),
            settings,
            as_json=as_json,
            answering=Answering(answers, record_answers),
        )
    finally:
        state.close()
