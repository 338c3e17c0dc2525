"""perdure rewind: a new run that begins at a checkpoint of another."""

from __future__ import annotations

import click

from perdure.cli.copying import copy_command, copy_options


@click.command()
@copy_options
@click.pass_context
def rewind(context: click.Context, run: str, target: str | None, listing: bool, as_json: bool) -> int:
    """Go back: a new run that stands at a checkpoint of another.

    TARGET is a node (its latest visit), NODE@N, or @N for the N-th checkpoint. The source is not touched; the new run has a log
    and branches of its own, and `resume` goes on with it.
    """
    return copy_command(context, "rewind", run, target, listing, as_json)
