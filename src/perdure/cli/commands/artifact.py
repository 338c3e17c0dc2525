"""perdure artifact: files that a run captured."""

from __future__ import annotations

import os
import shutil
from typing import Any

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.group()
def artifact() -> None:
    """Files that a run captured."""


@artifact.command("list")
@RUN_ARGUMENT
@JSON_OPTION
@click.pass_context
def list_artifacts(context: click.Context, run: str, as_json: bool) -> int:
    """List captured files with their sizes and digests."""
    found = _artifacts(context, run)
    if wants_json(context, as_json):
        print_json(found)
        return 0
    for each in found:
        say(f"{each['node_id']}  {each['path']}  {each['bytes']} bytes")
    return 0


@artifact.command("cp")
@RUN_ARGUMENT
@click.argument("target", metavar="DIR")
@JSON_OPTION
@click.pass_context
def copy_artifacts(context: click.Context, run: str, target: str, as_json: bool) -> int:
    """Copy all captured files into a folder."""
    from perdure.base.errors import EnvironmentFault

    found = _artifacts(context, run)
    for each in found:
        path = os.path.join(target, each["name"])
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(each["file"], path)
        except OSError as error:
            raise EnvironmentFault(f"{each['file']} cannot be copied to {path}: {error.strerror}.") from error
    if wants_json(context, as_json):
        print_json({"output": os.path.abspath(target), "files": len(found)})
    else:
        say(f"{len(found)} files in {target}")
    return 0


def _artifacts(context: click.Context, run: str) -> list[dict[str, Any]]:
    from perdure.service.changes import artifacts_of
    from perdure.service.find import find_run
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        return artifacts_of(state, find_run(state, run))
    finally:
        state.close()
