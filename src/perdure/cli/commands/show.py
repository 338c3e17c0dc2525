"""perdure show: one run, step by step."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import JSON_OPTION, RUN_ARGUMENT, settings_of, wants_json
from perdure.cli.output import choices_of, duration, indented, one_line, print_json, say, usage_text

_MARKS = {
    "succeeded": "✓",
    "partially_succeeded": "◐",
    "failed": "✗",
    "running": "…",
    "interrupted": "!",
    "waiting": "?",
    "skipped": "-",
}


@click.command()
@RUN_ARGUMENT
@JSON_OPTION
@click.pass_context
def show(context: click.Context, run: str, as_json: bool) -> int:
    """Show how a run stands: its steps, what waits for a person, how it ended."""
    from perdure.service.find import find_run
    from perdure.service.showing import show_run
    from perdure.service.state import open_state_to_read

    state = open_state_to_read(settings_of(context).state_dir, os.environ)
    try:
        shown = show_run(state, find_run(state, run))
    finally:
        state.close()
    print_json(shown) if wants_json(context, as_json) else _print(shown)
    return 0


def _print(shown: dict[str, Any]) -> None:
    say(f"{shown['name']}  {shown['run_id']}  {shown['status'].upper()}")
    if shown["goal"]:
        say(f"  Goal      {one_line(str(shown['goal']), 100)}")
    say(f"  Created   {shown['created_at']}   Duration {duration(shown['duration_ms'])}")
    if shown["usage"]:
        say(f"  Used      {usage_text(shown['usage'])}")
    if shown["owner"]:
        say(f"  Owner     {shown['owner']}")
    missing = "" if shown["has_files"] else f"  (missing; `perdure rebuild {shown['run_id'][:12]}` makes them again)"
    say(f"  Files     {shown['run_dir']}{missing}")
    if shown.get("run_branch"):
        say(f"  Branch    {shown['run_branch']}")
    _print_steps(shown)
    for question in shown["questions"]:
        say(f"  ? {question['step']}: {one_line(question['text'], 100)}{' (answered)' if question['answered'] else ''}")
    for wait in shown["slot_waits"]:
        say(f"  … {wait['step']}: {one_line(wait['text'], 150)}")
    for notice in shown["notices"]:
        say(f"  {notice.get('level')}: {one_line(str(notice.get('message')), 150)}")
    if shown["status"] == "paused" and shown["status_reason"]:
        say(f"  Paused    {indented(str(shown['status_reason']))}")
    failure = shown.get("failure")
    if isinstance(failure, dict):
        say(f"  Failure   {indented(str(failure.get('message')))}")
    _print_way_on(shown)


def _print_steps(shown: dict[str, Any]) -> None:
    for step in shown["steps"]:
        more = f", {step['attempts']} attempts" if step["attempts"] > 1 else ""
        more += f", interrupted {step['interruptions']} times" if step["interruptions"] else ""
        say(
            f"  {_MARKS.get(step['status'], '·')} {step['step']:<28} {step['status']:<20} {duration(step['duration_ms'])}{more}"
        )
        if step["failure"]:
            say(f"      {one_line(step['failure'], 150)}")


def _print_way_on(shown: dict[str, Any]) -> None:
    open_now = [question for question in shown["questions"] if not question["answered"]]
    for question in open_now:
        which = f" --question {question['question_id']}" if len(open_now) > 1 else ""
        say(f"  Answer with  perdure answer {shown['run_id'][:12]} {choices_of(question)}{which}")
    if shown["status"] == "waiting" and not open_now and not shown["owner"]:
        say(f"  Go on with  perdure resume {shown['run_id'][:12]}")
    verb = {"submitted": "start", "interrupted": "resume", "paused": "resume"}.get(shown["status"])
    if verb is not None:
        say(f"  Go on with  perdure {verb} {shown['run_id'][:12]}")
