"""perdure questions: what waits for a person."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import one_line, print_json, say


@click.command()
@click.argument("run", required=False, metavar="[RUN]")
@JSON_OPTION
@click.pass_context
def questions(context: click.Context, run: str | None, as_json: bool) -> int:
    """List open questions, of one run or of all."""
    from perdure.service.find import find_run
    from perdure.service.showing import questions_of
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        found = questions_of(state, find_run(state, run) if run else None)
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json(found)
        return 0
    if not found:
        say("Nothing waits for a person.")
    for each in found:
        choices = " ".join(f"[{option['key']}] {option['label']}" for option in each.get("options") or [])
        say(f"{each['run_id'][:12]}  {each['question_id'][:12]}  {one_line(each['text'], 80)}  {choices}")
    return 0
