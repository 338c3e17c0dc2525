"""perdure session show: one conversation, as people or programs read it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import duration, print_json, say, tell

if TYPE_CHECKING:
    from perdure.service.sessions import FoundSession, Problem, Summary


@click.command("show")
@click.argument("reference", metavar="REF")
@click.option("--summary", "is_summary", is_flag=True, help="Show its figures only.")
@click.option("--follow", "-f", "is_following", is_flag=True, help="Go on until the work has ended.")
@JSON_OPTION
@click.pass_context
def show_session(context: click.Context, reference: str, is_summary: bool, is_following: bool, as_json: bool) -> int:
    """Show a conversation. REF is a session's id or its beginning, RUN/STEP, or a whole reference.

    With --json it is all of its events; with --follow an event a line. Exit 2 when the session is of another machine, was
    collected, or was never saved."""
    from perdure.service import sessions
    from perdure.service.state import open_state_to_read

    if is_summary and is_following:
        raise click.UsageError("--summary and --follow exclude each other.")
    as_json = wants_json(context, as_json)
    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        found = sessions.find_session(state, reference)
    finally:
        state.close()
    if is_summary:
        _show_summary(sessions.summary(found.path), found.reference, as_json)
        return 0
    try:
        if is_following:
            return _follow(found, as_json)
        return _show_json(found) if as_json else _show_text(found)
    except KeyboardInterrupt:
        return 130


def _show_summary(summary: Summary, reference: str, as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    tokens = summary.tokens
    counts = [
        f"{value:,} {name.removesuffix('_tokens').replace('_', ' ')}"
        for name in tokens.__struct_fields__
        if (value := getattr(tokens, name)) is not None
    ]
    for name, value in (
        ("session", reference),
        ("backend", summary.backend),
        ("model", summary.model),
        ("reasoning", summary.reasoning),
        ("started", summary.started_at),
        ("ended", summary.ended_at),
        ("duration", duration(summary.duration_ms)),
        ("turns", str(summary.turns)),
        ("tokens", ", ".join(counts)),
        ("tool calls", f"{summary.tool_calls.calls}, {summary.tool_calls.failed} failed"),
        ("follow-ups", str(summary.follow_ups)),
    ):
        say(f"{name:<12}{value or '-'}")


def _show_text(found: FoundSession) -> int:
    from perdure.cli.transcript import TranscriptPrinter
    from perdure.service.sessions import Problem, transcript_of

    printer = TranscriptPrinter()
    code = 0
    for each in transcript_of(found):
        if isinstance(each, Problem):
            code = max(code, _tell_problem(found, each))
        else:
            printer.show(each)
    return code


def _show_json(found: FoundSession) -> int:
    """All events in one object, of which no more than one event is in memory."""
    import msgspec

    from perdure.service.sessions import Problem, entries_of

    encode = msgspec.json.encode
    out = sys.stdout
    begin = f'{{"reference":{encode(found.reference).decode()},"file":{encode(found.path).decode()},"events":['
    code, mark = 0, ""
    for each in entries_of(found):
        if isinstance(each, Problem):
            code = max(code, _tell_problem(found, each))
            continue
        out.write(f"{begin}{mark}\n{each.raw.decode()}")
        begin, mark = "", ","
    out.write(f"{begin}\n]}}\n")
    return code


def _follow(found: FoundSession, as_json: bool) -> int:
    """Until the last event is an end, and nothing more has come."""
    from perdure.cli.transcript import TranscriptPrinter
    from perdure.service.sessions import Problem, Transcript, follow_session, is_end

    transcript, printer = Transcript(), TranscriptPrinter(is_live=True)
    is_ended = False
    for each in follow_session(found):
        if each is None:
            sys.stdout.flush()
            if is_ended:
                return 0
        elif isinstance(each, str):
            printer.end()
            tell(f"The session was {each}; what follows begins anew." if each == "replaced" else "It was removed.")
            if each == "removed":
                return 0
            transcript, printer, is_ended = Transcript(), TranscriptPrinter(is_live=True), False
        elif isinstance(each, Problem):
            _tell_problem(found, each)
        else:
            is_ended = is_end(each.event, is_ended)
            if as_json:
                click.echo(each.raw.decode())
            else:
                for block in transcript.feed(each.event):
                    printer.show(block)
    return 0


def _tell_problem(found: FoundSession, problem: Problem) -> int:
    """Say it; the exit code that it makes. What a kill cut off is no failure."""
    tell(f"{'warn' if problem.is_torn else 'error'}: {problem.describe(found.path)}")
    return 0 if problem.is_torn else 2
