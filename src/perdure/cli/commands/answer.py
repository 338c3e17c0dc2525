"""perdure answer: answer a run's question."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say


@click.command()
@RUN_ARGUMENT
@click.argument("value", metavar="VALUE")
@click.option("--question", "question_id", metavar="ID", help="Which question, when several are open.")
@JSON_OPTION
@click.pass_context
def answer(context: click.Context, run: str, value: str, question_id: str | None, as_json: bool) -> int:
    """Answer a run's question with a choice's key or label, yes or no, or a text. The first answer counts."""
    from perdure.service import asking
    from perdure.service.find import find_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    try:
        given = asking.answer(state, find_run(state, run), value, question_id)
    finally:
        state.close()
    if wants_json(context, as_json):
        print_json(given)
    elif given["goes_on"]:
        say("Answered; the run goes on.")
    else:
        say(f"Answered. `perdure resume {given['run_id'][:12]}` goes on.")
    return 0
