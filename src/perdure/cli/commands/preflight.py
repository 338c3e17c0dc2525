"""perdure preflight: whether a workflow would run."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import request_of, settings_of, wants_json, workflow_options
from perdure.cli.output import print_json, say

_MARKS = {"ok": "✓", "warn": "!", "failed": "✗"}


@click.command()
@workflow_options
@click.pass_context
def preflight(context: click.Context, /, as_json: bool, **values: Any) -> int:
    """Check all that a run of a workflow needs, without running it and without changing anything. Exit 1 when a check fails.

    The workflow, its settings and hooks, the working folder and its repository, the backend, programs, the state home.
    """
    from perdure.service.preflight import preflight as check

    found = check(request_of(values), settings_of(context).state_dir, os.environ)
    failed = any(each.level == "failed" for each in found)
    if wants_json(context, as_json):
        print_json({"ok": not failed, "checks": found})
        return 1 if failed else 0
    for each in found:
        say(f"{_MARKS[each.level]} {each.name}: {each.text}")
    return 1 if failed else 0
