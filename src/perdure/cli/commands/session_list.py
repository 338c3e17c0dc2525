"""perdure session list: the conversations that are kept here."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import one_line, print_json, say, table, tell


@click.command("list")
@JSON_OPTION
@click.pass_context
def list_sessions(context: click.Context, as_json: bool) -> int:
    """List conversations, the one that was written last first."""
    from perdure.disk.home import find_state_home
    from perdure.service import sessions

    home = find_state_home(settings_of(context).state_dir, os.environ)
    found = sessions.list_sessions(home)
    if wants_json(context, as_json):
        print_json(found)
        return 0
    for each in found:
        if each.problem is not None:
            tell(f"warn: skipped {each.session_id}.jsonl: {each.problem}")
    readable = [each for each in found if each.problem is None]
    if not readable:
        say("There are no sessions.")
        return 0
    rows = [
        [
            one_line(each.session_id, 40),
            each.updated_at[:19],
            one_line(" ".join(filter(None, [each.backend, each.model])) or "-", 30),
            f"{each.bytes / 1e6:.1f} MB",
            "ended" if each.is_ended else "open",
            one_line(each.title or "-", 60),
        ]
        for each in readable
    ]
    table(rows, ["SESSION", "WRITTEN", "MODEL", "SIZE", "STATE", "TITLE"])
    return 0
