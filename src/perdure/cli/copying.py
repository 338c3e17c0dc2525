"""What `rewind` and `fork` have in common."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say, table

F = TypeVar("F", bound=Callable[..., Any])


def copy_options(function: F) -> F:
    """Their arguments."""
    for decorator in (
        JSON_OPTION,
        click.option("--list", "listing", is_flag=True, help="List the checkpoints."),
        click.argument("target", required=False, metavar="[TARGET]"),
        RUN_ARGUMENT,
    ):
        function = decorator(function)
    return function


def copy_command(context: click.Context, kind: str, run: str, target: str | None, listing: bool, as_json: bool) -> int:
    """List the checkpoints, or make the new run."""
    from perdure.service.copying import copy_run, find_stop, stops_of
    from perdure.service.find import find_run
    from perdure.service.state import open_state, open_state_to_read

    as_json = wants_json(context, as_json)
    state = (open_state_to_read if listing else open_state)(settings_of(context).state_dir, os.environ)
    try:
        row = find_run(state, run)
        stops = stops_of(state, row)
        if listing:
            if as_json:
                print_json(stops)
            else:
                rows = [
                    [
                        f"@{stop.ordinal}",
                        f"{stop.node_id}@{stop.visit}",
                        stop.status,
                        stop.next_node_id or "-",
                        (stop.git_commit_sha or "-")[:12],
                    ]
                    for stop in stops
                ]
                table(rows, ["ORDINAL", "NODE", "STATUS", "NEXT", "COMMIT"])
            return 0
        stop = find_stop(stops, target, row.run_id)
        new_id = copy_run(state, row, stop, kind=kind)
    finally:
        state.close()
    if as_json:
        print_json({"run_id": new_id, "source_run_id": row.run_id, "node_id": stop.node_id, "visit": stop.visit})
    else:
        say(f"{new_id} stands after {stop.node_id}@{stop.visit}; `perdure resume {new_id}` goes on.")
    return 0
