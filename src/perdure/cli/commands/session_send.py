"""perdure session send: a question about a conversation that has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import print_json, say, tell

if TYPE_CHECKING:
    from perdure.agents.loop.follow_up import FollowUp
    from perdure.kernel.ending import RunResult
    from perdure.service.sessions import FoundSession


@click.command("send")
@click.argument("reference", metavar="REF")
@click.argument("message", metavar="MESSAGE")
@click.option(
    "--permission",
    type=click.Choice(["read-only", "read-write", "full"]),
    default="read-only",
    help="What the agent's tools may do now.",
)
@JSON_OPTION
@click.pass_context
def send_session(context: click.Context, reference: str, message: str, permission: str, as_json: bool) -> int:
    """Ask the model of a conversation that has ended one more question. REF is as for `show`.

    The conversation is replayed unchanged, and the question and its answer are added to it; the recorded result of the work stays.
    It is a run of its own: `perdure resume` goes on with it when it was interrupted."""
    from perdure.cli.executing import attended
    from perdure.service import follow_up, sessions
    from perdure.service.state import open_state

    settings = settings_of(context)
    as_json = wants_json(context, as_json)
    state = open_state(settings.state_dir, os.environ)
    try:
        found = sessions.find_session(state, reference)
        asked = follow_up.follow_up_of(state, found, message, permission)
        if asked.files_changed and not as_json:
            tell("warn: the files are not as the work left them; the model is told.")
        return attended(
            state,
            lambda **attending: follow_up.send(state, asked, **attending),
            settings,
            as_json=as_json,
            show=lambda result: _show(found, asked, result, as_json=as_json),
        )
    finally:
        state.close()


def _show(found: FoundSession, asked: FollowUp, result: RunResult, *, as_json: bool) -> None:
    """The answer, or why there is none."""
    outcome = result.outcome
    output = outcome.output if outcome is not None and isinstance(outcome.output, dict) else {}
    if as_json:
        print_json(
            {
                "reference": found.reference,
                "sessionId": found.session_id,
                "requestId": result.run_id,
                "send": output.get("send"),
                "filesChanged": asked.files_changed,
                "answer": output.get("answer"),
                "usage": outcome.properties.get("usage") if outcome is not None else None,
                "error": outcome.failure.message
                if outcome is not None and outcome.failure is not None
                else result.reason,
            }
        )
    elif "answer" in output:
        say(str(output["answer"]))
    else:
        why = outcome.failure.message if outcome is not None and outcome.failure is not None else result.reason
        tell(f"No answer: {why}. `perdure show {result.run_id}` tells more.")
