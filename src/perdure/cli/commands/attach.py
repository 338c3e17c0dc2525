"""perdure attach: follow a run that another process executes, and answer its questions."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import print_json, say, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.service.state import State
    from perdure.store.records import RunRow


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
    progress = Progress(quiet=as_json, verbose=settings_of(context).verbose)
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
        return 130
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


def _ask(state: State, row: RunRow, asked: set[str], as_json: bool) -> None:
    """Put open questions to the person at this terminal, one after the other, while no other attacher does."""
    from perdure.cli.terminal import is_interactive
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
        try:
            _answer_here(state, row, question)
        finally:
            release_claim(state.run_dir(row))
        asked.add(question["question_id"])


def _answer_here(state: State, row: RunRow, question: dict[str, Any]) -> None:
    """Ask until there is an answer that counts, from here or from elsewhere. An empty line leaves the question to others."""
    from perdure.base.errors import NotFound, Refused
    from perdure.cli.terminal import show_question
    from perdure.service.asking import AlreadyAnswered, answer, is_open
    from perdure.service.showing import as_question

    show_question(as_question(question), question["step"])
    while True:
        text = _line(lambda: is_open(state, question["question_id"]))
        if not text:
            return
        try:
            answer(state, row, text, question["question_id"])
        except (AlreadyAnswered, NotFound):
            tell("  (answered elsewhere)")
        except Refused as error:
            tell(f"  {error}")
            continue
        return


def _line(is_wanted: Callable[[], bool]) -> str | None:
    """What the person types; None when the question was answered elsewhere first. Raises `KeyboardInterrupt` at the end of input."""
    import select

    click.echo("> ", err=True, nl=False)
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        if not is_wanted():
            tell("\n  (answered elsewhere)")
            return None
    text = os.read(sys.stdin.fileno(), 64 * 1024)
    if not text:
        raise KeyboardInterrupt
    return text.decode("utf-8", "replace").strip()
