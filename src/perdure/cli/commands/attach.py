"""perdure attach: follow a run that another process executes, and answer its questions."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say, tell


@click.command()
@RUN_ARGUMENT
@JSON_OPTION
@click.pass_context
def attach(context: click.Context, run: str, as_json: bool) -> int:
    """Follow a run to its end; at a terminal its questions are asked here. Ctrl-C only detaches."""
    from perdure.cli.progress import Progress
    from perdure.service.find import find_run
    from perdure.service.following import follow
    from perdure.service.showing import show_run
    from perdure.service.state import open_state

    state = open_state(settings_of(context).state_dir, os.environ)
    as_json = wants_json(context, as_json)
    progress = Progress(quiet=as_json)
    asked: set[str] = set()
    try:
        row = find_run(state, run)
        for event in follow(state, row):
            if event is not None:
                progress.tell(event)
            else:
                progress.flush()
                _ask(state, row, asked, as_json)
        progress.end()
        found = state.store.find_run(row.run_id)
        assert found is not None
        shown = show_run(state, found)
    except KeyboardInterrupt:
        progress.end()
        tell("\nDetached; the run goes on.")
        return 0
    finally:
        state.close()
    return _ended(shown, as_json)


def _ended(shown: dict[str, Any], as_json: bool) -> int:
    from perdure.cli.executing import print_summary
    from perdure.service.running import EXIT_CODES

    print_json(shown) if as_json else print_summary(shown)
    if shown["status"] == "interrupted":
        say(f"\n  Its owner is gone; `perdure resume {shown['run_id'][:12]}` goes on.")
    return EXIT_CODES.get(shown["status"], 4)


def _ask(state: Any, row: Any, asked: set[str], as_json: bool) -> None:
    """Put open questions to the person at this terminal, one after the other, while no other attacher does."""
    from perdure.cli.terminal import is_interactive
    from perdure.service.asking import AlreadyAnswered, answer
    from perdure.service.showing import questions_of
    from perdure.views.gate_files import claim, release_claim

    for question in questions_of(state, row):
        if question["question_id"] in asked or question["answered"]:
            continue
        if not is_interactive() or as_json:
            asked.add(question["question_id"])
            tell(f"  ? {question['text']}  (answer with `perdure answer {row.run_id[:12]} VALUE`)")
            continue
        if not claim(state.run_dir(row)):
            continue
        asked.add(question["question_id"])
        try:
            text = _prompt(question)
            if text:
                answer(state, row, text, question["question_id"])
        except AlreadyAnswered as error:
            tell(f"  {error}")
        finally:
            release_claim(state.run_dir(row))


def _prompt(question: dict[str, Any]) -> str:
    tell(f"? {question['text']}")
    for option in question.get("options") or []:
        tell(f"    [{option['key']}] {option['label']}")
    try:
        return str(click.prompt(">", prompt_suffix=" ", default="", show_default=False, err=True))
    except click.exceptions.Abort as error:
        raise KeyboardInterrupt from error
