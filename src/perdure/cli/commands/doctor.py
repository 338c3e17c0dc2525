"""perdure doctor: look for trouble."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import print_json, say

_MARKS = {"ok": "✓", "warn": "!", "error": "✗"}


@click.command()
@JSON_OPTION
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> int:
    """Look at the machine and the state for trouble; changes nothing. Exit 2 when something is broken."""
    from perdure.service.diagnosis import diagnose

    found = diagnose(settings_of(context).state_dir, os.environ)
    if wants_json(context, as_json):
        print_json(found)
    else:
        for each in found:
            say(f"{_MARKS[each['level']]} {each['what']}: {each['text']}")
    return 2 if any(each["level"] == "error" for each in found) else 0
