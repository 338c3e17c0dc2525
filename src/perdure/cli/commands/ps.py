"""perdure ps: the list of runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from perdure.cli.options import JSON_OPTION, pairs, settings_of, wants_json
from perdure.cli.output import cost_text, duration, one_line, print_json, say, table, tell

if TYPE_CHECKING:
    from perdure.service.listing import Listed

_FOLDER = 30


@click.command()
@click.option("-a", "--all", "all_runs", is_flag=True, help="Settled runs too.")
@click.option("-q", "--quiet", "ids_only", is_flag=True, help="Ids only.")
@click.option("--workflow", default="", metavar="NAME", help="Runs of this workflow only.")
@click.option(
    "--filter", "filters", multiple=True, callback=pairs, metavar="workflow=NAME", help="The same, in another form."
)
@click.option("--label", "labels", multiple=True, callback=pairs, metavar="K=V", help="Runs with this label only.")
@click.option("--before", metavar="DATE", help="Runs made before this date or time only.")
@click.option("--orphans", is_flag=True, help="Interrupted runs only.")
@JSON_OPTION
@click.pass_context
def ps(  # noqa: PLR0913 - its options
    context: click.Context,
    all_runs: bool,
    ids_only: bool,
    workflow: str,
    filters: dict[str, str],
    labels: dict[str, str],
    before: str | None,
    orphans: bool,
    as_json: bool,
) -> int:
    """List runs, newest first: those that are not settled, or all with -a."""
    import gc

    from perdure.service.listing import drift, list_runs
    from perdure.service.state import open_state_to_read

    gc.disable()  # thousands of rows, no cycles, and then the process ends
    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        rows = list_runs(state, all_runs=all_runs, workflow=workflow or filters.get("workflow", ""), labels=labels)
        as_json = wants_json(context, as_json)
        # Programs that list often are spared the look at the folder; `doctor` tells them.
        found = None if ids_only or as_json else drift(state)
    finally:
        state.close()
    if before:
        rows = [row for row in rows if row.created_at < before]
    if orphans:
        rows = [row for row in rows if row.status == "interrupted"]
    if ids_only:
        for row in rows:
            say(row.run_id)
    elif found is None:
        print_json(rows)
    else:
        _print_table(rows, all_runs, frozenset(found.missing))
        if found.unknown:
            tell(f"{len(found.unknown)} run directories are in no list; `perdure rebuild --store` takes them in.")
    return 0


def _print_table(rows: list[Listed], all_runs: bool, missing: frozenset[str]) -> None:
    if not rows:
        say("No runs." if all_runs else "No active runs. `perdure ps -a` lists settled ones too.")
        return
    cells = [
        [
            row.run_id[:12],
            one_line(row.name, 24),
            row.status + _remark(row, missing),
            _short(one_line(row.working_directory or "-", 4_096)),
            duration(row.duration_ms),
            row.created_at[:16].replace("T", " "),
            one_line(str(row.goal), 50),
        ]
        for row in rows
    ]
    header = ["RUN ID", "WORKFLOW", "STATUS", "DIRECTORY", "DURATION", "CREATED (UTC)", "GOAL"]
    if any(row.usage for row in rows):
        header.insert(5, "COST")
        for line, row in zip(cells, rows, strict=True):
            line.insert(5, cost_text(row.usage) if row.usage else "-")
    table(cells, header)


def _remark(row: Listed, missing: frozenset[str]) -> str:
    if not row.is_readable:
        return " (unreadable record)"
    return " (files missing)" if row.run_id in missing else ""


def _short(path: str) -> str:
    """The folder as a person would write it; of a long one its end, which tells more than its beginning."""
    home = os.path.expanduser("~")
    path = f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path
    return path if len(path) <= _FOLDER else f"…{path[1 - _FOLDER :]}"
