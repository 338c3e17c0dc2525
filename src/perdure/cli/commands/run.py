"""perdure run: make a run and execute it here, or detached."""

from __future__ import annotations

import os
from typing import Any

import click

from perdure.cli.options import answer_flags, answer_options, request_of, settings_of, wants_json, workflow_options
from perdure.cli.output import print_json, say, tell


@click.command()
@workflow_options
@answer_options
@click.option("-d", "--detach", is_flag=True, help="Run in a process of its own; prints the run's id.")
@click.pass_context
def run(
    context: click.Context, /, detach: bool, as_json: bool, answers: str, record_answers: str, **values: Any
) -> int:
    """Run a workflow: a .fabro, .dot or .toml file, or the name of one.

    At a terminal its gates are asked here; elsewhere the run parks at a gate and this exits with 4.
    """
    from perdure.service.state import open_state
    from perdure.service.workflows import prepare

    settings = settings_of(context)
    as_json = wants_json(context, as_json)
    request = request_of(values)
    prepared = _prepared(settings, request, prepare)
    state = open_state(settings.state_dir, os.environ)
    try:
        for notice in prepared.notices:
            tell(f"warn: {notice}")
        if detach:
            return _detached(state, prepared, as_json, answer_flags(answers, record_answers))
        from perdure.cli.executing import Answering, attended
        from perdure.service.running import run_now

        if not settings.quiet and not as_json:
            graph = prepared.loaded.graph
            tell(f"{graph.name}: {len(graph.nodes)} nodes, {len(graph.edges)} edges  ({prepared.loaded.path})")
            goal = prepared.definition.options.goal
            if goal:
                tell(f"  Goal: {goal.splitlines()[0][:120]}")
        return attended(
            state,
            lambda **more: run_now(state, prepared, **more),
            settings,
            as_json=as_json,
            answering=Answering(answers, record_answers),
        )
    finally:
        state.close()


def _prepared(settings: Any, request: Any, prepare: Any) -> Any:
    from perdure.disk.home import find_state_home

    return prepare(request, find_state_home(settings.state_dir, os.environ))


def _detached(state: Any, prepared: Any, as_json: bool, flags: list[str]) -> int:
    from perdure.service.detaching import detach
    from perdure.service.running import submit

    run_id = submit(state, prepared)
    row = state.store.find_run(run_id)
    assert row is not None
    pid = detach(state, row, flags)
    if as_json:
        print_json({"run_id": run_id, "pid": pid, "name": prepared.definition.name})
    else:
        say(run_id)
    return 0
