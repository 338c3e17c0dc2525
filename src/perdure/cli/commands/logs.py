"""perdure logs: a run's events."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import escaped


@click.command()
@RUN_ARGUMENT
@click.option("-f", "--follow", "following", is_flag=True, help="Go on with new events until the run is settled.")
@click.option("-p", "--pretty", is_flag=True, help="Readable lines instead of JSON.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="The last N events only.")
@click.option("--since", metavar="TIME", help="Events from this time (RFC 3339) on only.")
@JSON_OPTION
@click.pass_context
def logs(
    context: click.Context,
    run: str,
    following: bool,
    pretty: bool,
    tail: int | None,
    since: str | None,
    as_json: bool,
) -> int:
    """Print a run's events, one JSON object a line, or readable with -p."""
    pretty = pretty and not wants_json(context, as_json)
    from perdure.base.clock import parse_rfc3339
    from perdure.base.errors import Refused
    from perdure.kernel.events import event_of
    from perdure.service.find import find_run
    from perdure.service.following import follow
    from perdure.service.state import open_state_to_read
    from perdure.views.cli_log import log_line

    try:
        since_ms = parse_rfc3339(since) if since else 0
    except ValueError as error:
        raise Refused(f"{since!r} is no time: {error}.", hint="Write one like 2026-03-07T09:30:00Z.") from error
    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        events = [event_of(row.run_id, each) for each in state.store.read_events(row.no)]
        shown = [event for event in events if event.ts >= since_ms]
        last = events[-1].seq if events else 0
        rest = follow(state, row, after=last) if following else iter(())
        for event in shown if tail is None else shown[max(len(shown) - tail, 0) :]:
            _print(event, pretty, log_line)
        for later in rest:
            if later is not None:
                _print(later, pretty, log_line)
    except KeyboardInterrupt:
        return 130
    finally:
        state.close()
    return 0


def _print(event: object, pretty: bool, log_line: object) -> None:
    if not pretty:
        click.echo(event.line().decode(), nl=False)  # type: ignore[attr-defined]
        return
    line = log_line(event)  # type: ignore[operator]
    if line is not None:
        click.echo(escaped(line.decode().rstrip("\n")))
