"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Answer in JSON on standard output.")
RUN_ARGUMENT = click.argument("run", metavar="RUN")


def pairs(_context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE` options as a map."""
    found: dict[str, str] = {}
    for value in values:
        key, mark, rest = value.partition("=")
        if not mark or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE.", param=parameter)
        found[key] = rest
    return found


def workflow_options(function: F) -> F:
    """What can be said of a run when it is made."""
    decorators = [
        click.argument("workflow", metavar="WORKFLOW"),
        click.option("--goal", help="What the run is for."),
        click.option("--goal-file", type=click.Path(exists=True, dir_okay=False), help="A file with the goal."),
        click.option(
            "--label", "labels", multiple=True, callback=pairs, metavar="K=V", help="A label; may be repeated."
        ),
        click.option(
            "-v",
            "--var",
            "variables",
            multiple=True,
            callback=pairs,
            metavar="K=V",
            help="A value for $K in the graph.",
        ),
        click.option(
            "-I", "--input", "inputs", multiple=True, callback=pairs, metavar="K=V", help="A value for {{ inputs.K }}."
        ),
        click.option("--dry-run", is_flag=True, help="Simulate every step; nothing is started."),
        click.option("--auto-approve", is_flag=True, help="Answer every gate with its first choice."),
        click.option("--no-retro", is_flag=True, help="Write no retrospective."),
        click.option("--model", default="", help="The model of agents that name none."),
        click.option("--provider", default="", help="The provider of agents that name none."),
        click.option(
            "--backend",
            default="",
            metavar="NAME",
            help="Who answers: command, claude-code, codex, acp, scripted, simulated.",
        ),
        click.option(
            "--command",
            default="",
            metavar='"PROGRAM ARGS"',
            help="The program of the backend 'command', or of a coding agent.",
        ),
        click.option("--script", default="", metavar="FILE", help="The answers of the backend 'scripted'."),
        click.option("--sandbox", default="", metavar="NAME", help="Where commands run: local; others are refused."),
        *reversed(_BUDGETS),
        _ALLOW_UNKNOWN_COST,
        click.option("--in-place", is_flag=True, help="Work in the folder itself, without a worktree."),
        click.option(
            "--keep-worktree",
            "--preserve-sandbox",
            "keep_worktree",
            is_flag=True,
            help="Leave the worktree when the run is settled.",
        ),
        click.option("--dialect", type=click.Choice(["fabro", "attractor"]), help="Read the file as this dialect."),
        JSON_OPTION,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


_ALLOW_UNKNOWN_COST = click.option(
    "--allow-unknown-cost", is_flag=True, help="Ask agents whose cost nobody knows in spite of --budget-usd."
)
_BUDGETS = (
    click.option(
        "--budget-tokens", type=click.IntRange(min=0), help="Pause before a call when so many tokens are used."
    ),
    click.option(
        "--budget-usd", type=click.FloatRange(min=0), help="Pause before a call when it cost so many US dollars."
    ),
)


def change_options(function: F) -> F:
    """What can be otherwise from now on, of a run that is there already."""
    for decorator in (
        _ALLOW_UNKNOWN_COST,
        *_BUDGETS,
        click.option("--cwd", "directory", default="", metavar="DIR", help="The folder to work in from now on."),
        click.option("--script", default="", metavar="FILE", help="The answers of the backend 'scripted'."),
        click.option(
            "--command",
            default="",
            metavar='"PROGRAM ARGS"',
            help="The program of the backend 'command', or of a coding agent.",
        ),
        click.option(
            "--backend",
            "name",
            default="",
            metavar="NAME",
            help="Who answers from now on: command, claude-code, codex, acp, scripted, simulated.",
        ),
    ):
        function = decorator(function)
    return function


def answer_options(function: F) -> F:
    """Answers that come from a file, and go into one."""
    for decorator in (
        click.option("--record-answers", default="", metavar="FILE", help="Write the run's answers into this file."),
        click.option("--answers", default="", metavar="FILE", help="Answer gates from this file first."),
    ):
        function = decorator(function)
    return function


def edit_options(function: F) -> F:
    """What becomes of edits of the workflow file, of a run that goes on."""
    for decorator in (
        click.option("--keep-recorded", is_flag=True, help="Go on with the workflow as it was recorded."),
        click.option(
            "--accept-changes", is_flag=True, help="Go on with the edited workflow file, and what was recorded."
        ),
    ):
        function = decorator(function)
    return function


def change_of(values: dict[str, Any]) -> Any:
    """What `change_options` and `edit_options` said, for the service."""
    from perdure.service.running import Change

    accept, keep = values.pop("accept_changes", False), values.pop("keep_recorded", False)
    if accept and keep:
        raise click.UsageError("--accept-changes and --keep-recorded exclude each other.")
    return Change(**values, edits="accept" if accept else "ignore" if keep else "refuse")


_FLAGS = {"name": "--backend", "directory": "--cwd"}


def flags_of(values: dict[str, Any]) -> list[str]:
    """What `change_options` and `edit_options` said, as a command line again."""
    words: list[str] = []
    for name, value in values.items():
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False and value != "":
            words += [flag, str(value)]
    return words


def answer_flags(answers: str, record_answers: str) -> list[str]:
    """What `answer_options` said, as a command line for a process in whatever folder. Raises `BadAnswers`, before anything starts."""
    words: list[str] = []
    if answers:
        from perdure.service.answers import read_answers

        read_answers(answers)
        words += ["--answers", os.path.abspath(answers)]
    if record_answers:
        words += ["--record-answers", os.path.abspath(record_answers)]
    return words


def request_of(values: dict[str, Any]) -> Any:
    """What was said, for the service."""
    from perdure.service.workflows import Request

    goal = values["goal"]
    if values["goal_file"]:
        goal = _goal_in(values["goal_file"])
    limits = {"usd": values["budget_usd"], "tokens": values["budget_tokens"]}
    return Request(
        workflow=values["workflow"],
        cwd=current_folder(),
        goal=goal,
        labels=values["labels"],
        variables=values["variables"],
        inputs=values["inputs"],
        dry_run=values["dry_run"],
        auto_approve=values["auto_approve"],
        retro=not values["no_retro"],
        model=values["model"],
        provider=values["provider"],
        backend=values["backend"],
        command=values["command"],
        script=values["script"],
        sandbox=values["sandbox"],
        budget={name: each for name, each in limits.items() if each is not None},
        allow_unknown_cost=values["allow_unknown_cost"],
        in_place=values["in_place"],
        keep_worktree=values["keep_worktree"],
        dialect=values["dialect"],
    )


def current_folder() -> str:
    """The folder that the command was called in. Raises `EnvironmentFault` when it was removed, or has a name that is no text."""
    from perdure.base.errors import EnvironmentFault

    try:
        folder = os.getcwd()
        folder.encode()
    except OSError as error:
        raise EnvironmentFault("The current folder is not there any more.", hint="Change to another one.") from error
    except UnicodeEncodeError as error:
        raise EnvironmentFault(f"The name of the current folder is no UTF-8 text: {error.object!a}.") from error
    return folder


def _goal_in(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read().strip()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path} is no UTF-8 text.", param_hint="--goal-file") from error
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be read: {error.strerror}.", param_hint="--goal-file") from error


def settings_of(context: click.Context) -> Any:
    """The options of the whole command line."""
    return context.find_root().obj


def wants_json(context: click.Context, as_json: bool) -> bool:
    """Whether the answer is to be JSON."""
    return as_json or bool(settings_of(context).as_json)
