"""perdure permissions: what agents were refused, and what they may do in future runs."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import JSON_OPTION, current_folder, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.group()
def permissions() -> None:
    """What agents of this project may do in future runs."""


@permissions.command("list")
@JSON_OPTION
@click.pass_context
def list_permissions(context: click.Context, as_json: bool) -> int:
    """List refused requests that can be allowed, and grants."""
    from perdure.service.permissions import list_permissions as find

    found = find(settings_of(context).state_dir, os.environ, current_folder())
    if wants_json(context, as_json):
        print_json(found)
        return 0
    live = [each for each in found["grants"] if not each["revoked"] and not each["used"]]
    if not found["requests"] and not live:
        say("Nothing was refused, and nothing is granted.")
    for each in found["requests"]:
        say(f"{each['approval_id']}  Future permission: {each['tool']}  for {each['agent_id']}")
    for each in live:
        say(f"{each['id']}  granted: {each['tool']}  to {each['agent_id']} ({each['lifetime']})")
    if found["requests"]:
        say("`perdure permissions allow ID` allows future runs; `deny ID` takes it off the list.")
    return 0


@permissions.command()
@click.argument("request", metavar="ID")
@JSON_OPTION
@click.pass_context
def allow(context: click.Context, request: str, as_json: bool) -> int:
    """Allow future runs what was refused. What was refused is not done again."""
    from perdure.service.permissions import allow as decide

    done = decide(settings_of(context).state_dir, os.environ, current_folder(), request)
    return _told(context, as_json, done, f"{done['agent_id']} may use {done['tool']} in future runs ({done['id']}).")


@permissions.command()
@click.argument("request", metavar="ID")
@JSON_OPTION
@click.pass_context
def deny(context: click.Context, request: str, as_json: bool) -> int:
    """Take a refused request off the list, or a grant back."""
    from perdure.service.permissions import deny as decide

    done = decide(settings_of(context).state_dir, os.environ, current_folder(), request)
    return _told(context, as_json, done, f"{done['agent_id']} may not use {done['tool']} without asking.")


def _told(context: click.Context, as_json: bool, done: dict[str, Any], text: str) -> int:
    if wants_json(context, as_json):
        print_json(done)
    else:
        say(text)
    return 0
