"""perdure watch: follow a run without touching it."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import say, tell


@click.command()
@RUN_ARGUMENT
@click.option("--timeout", type=float, metavar="S", help="Stop watching after so many seconds, and exit with 3.")
@JSON_OPTION
@click.pass_context
def watch(context: click.Context, run: str, timeout: float | None, as_json: bool) -> int:
    """Follow a run's events until it is settled: 0 succeeded, 1 failed, 3 when the watcher stopped, 4 when it waits."""
    import time

    from perdure.cli.progress import Progress
    from perdure.service.find import find_run
    from perdure.service.following import follow, status_of
    from perdure.service.running import EXIT_CODES
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    as_json = wants_json(context, as_json)
    progress = Progress(quiet=as_json, verbose=settings_of(context).verbose)
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        row = find_run(state, run)
        for event in follow(state, row):
            if event is None:
                progress.flush()
                if deadline is not None and time.monotonic() > deadline:
                    progress.end()
                    tell("Stopped watching; the run goes on.")
                    return 3
            elif as_json:
                click.echo(event.line().decode().rstrip())
            else:
                progress.tell(event)
        status = status_of(state, row.run_id)
    except KeyboardInterrupt:
        progress.end()
        tell("\nStopped watching; the run goes on.")
        return 130
    finally:
        state.close()
    progress.end()
    if not as_json:
        say(f"{status}  {row.run_id}")
        if status == "interrupted":
            say(f"Its owner is gone; `perdure resume {row.run_id[:12]}` goes on.")
    return EXIT_CODES.get(status, 4)
