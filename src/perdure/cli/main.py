"""The `perdure` command. A command's module is imported only when it is called, so that help and lists start quickly."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from perdure import __version__

# Name: where the command is, and what the list of commands says of it.
COMMANDS = {
    "run": ("perdure.cli.commands.run:run", "Run a workflow."),
    "create": ("perdure.cli.commands.create:create", "Make a run without starting it; prints its id."),
    "start": ("perdure.cli.commands.start:start", "Start a run that was made, detached."),
    "attach": ("perdure.cli.commands.attach:attach", "Follow a run and answer its questions."),
    "resume": ("perdure.cli.commands.resume:resume", "Go on with a run from its last finished step."),
    "wait": ("perdure.cli.commands.wait:wait", "Wait until a run is settled."),
    "ps": ("perdure.cli.commands.ps:ps", "List runs."),
    "show": ("perdure.cli.commands.show:show", "Show how a run stands, step by step."),
    "watch": ("perdure.cli.commands.watch:watch", "Follow a run's events; changes nothing."),
    "logs": ("perdure.cli.commands.logs:logs", "Print a run's events."),
    "inspect": ("perdure.cli.commands.inspect:inspect", "Print a run's records as JSON."),
    "diff": ("perdure.cli.commands.diff:diff", "Show what a run changed."),
    "questions": ("perdure.cli.commands.questions:questions", "List what waits for a person."),
    "answer": ("perdure.cli.commands.answer:answer", "Answer a run's question."),
    "cancel": ("perdure.cli.commands.cancel:cancel", "End a run and its processes."),
    "pause": ("perdure.cli.commands.pause:pause", "Let a run stop after the step that it is at."),
    "steer": ("perdure.cli.commands.steer:steer", "Say something to the next agent of a run."),
    "rewind": ("perdure.cli.commands.rewind:rewind", "Go back: a new run that stands at a checkpoint of another."),
    "fork": ("perdure.cli.commands.fork:fork", "Branch off: a new run from a checkpoint of another."),
    "rm": ("perdure.cli.commands.rm:rm", "Remove settled runs."),
    "prune": ("perdure.cli.commands.prune:prune", "Remove old settled runs; shows them first."),
    "export": ("perdure.cli.commands.export:export", "Copy a run as files into a folder."),
    "rebuild": (
        "perdure.cli.commands.rebuild:rebuild",
        "Make lost files again from the log, or a lost log from files.",
    ),
    "validate": ("perdure.cli.commands.validate:validate", "Check a workflow."),
    "parse": ("perdure.cli.commands.parse:parse", "Print a workflow's syntax tree as JSON."),
    "graph": ("perdure.cli.commands.graph:graph", "Draw a workflow."),
    "new": ("perdure.cli.commands.new:new", "Make a new workflow to begin with."),
    "workflow": ("perdure.cli.commands.workflow:workflow", "List workflows."),
    "artifact": ("perdure.cli.commands.artifact:artifact", "List or copy files that a run captured."),
    "doctor": ("perdure.cli.commands.doctor:doctor", "Look for trouble; changes nothing."),
    "completion": ("perdure.cli.commands.completion:completion", "Print a shell's completion script."),
    "execute-detached": ("perdure.cli.commands.execute_detached:execute_detached", ""),
}
HIDDEN = frozenset({"execute-detached"})


class LazyGroup(click.Group):
    """Commands by name, each imported when it is wanted."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return [name for name in COMMANDS if name not in HIDDEN]

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        found = COMMANDS.get(name)
        if found is None:
            return None
        from importlib import import_module

        module, _, attribute = found[0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_where, about) in COMMANDS.items() if name not in HIDDEN])


class Settings:
    """The options that every command has."""

    def __init__(self, state_dir: str | None, as_json: bool, quiet: bool, verbose: bool, debug: bool) -> None:
        self.state_dir = state_dir
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose
        self.debug = debug


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--state-dir", metavar="DIR", help="Where the state is; beats PERDURE_STATE_HOME.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON on standard output.")
@click.option("--quiet", is_flag=True, help="Print results only.")
@click.option("--verbose", is_flag=True, help="Print more.")
@click.option("--debug", is_flag=True, help="Print tracebacks of unexpected errors.")
@click.version_option(__version__, "-V", "--version", message="perdure %(version)s")
@click.pass_context
def cli(context: click.Context, state_dir: str | None, as_json: bool, quiet: bool, verbose: bool, debug: bool) -> None:
    """Runs agent work that must not be lost. Kill it anywhere: it goes on from the last finished step."""
    as_json = as_json or os.environ.get("PERDURE_JSON", "") not in ("", "0")
    context.obj = Settings(state_dir, as_json, quiet, verbose, debug)


def main(arguments: list[str] | None = None) -> None:
    """The console entry: exit codes are those of docs/reference/exit-codes.md."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(given))


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code."""
    as_json = "--json" in arguments
    try:
        result: Any = cli.main(args=arguments, prog_name="perdure", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        return 130
    except click.ClickException as error:
        return _usage(error, as_json)
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:  # noqa: BLE001 - the last resort: one line for people, all of it with --debug
        return _failed(error, as_json, debug="--debug" in arguments)
    return result if isinstance(result, int) else 0


def _usage(error: click.ClickException, as_json: bool) -> int:
    if as_json:
        from perdure.cli.output import print_error

        print_error("usage", error.format_message(), None)
    else:
        error.show()
    return 2


def _failed(error: Exception, as_json: bool, *, debug: bool) -> int:
    from perdure.base.errors import PerdureError
    from perdure.cli.output import escaped, print_error

    if isinstance(error, PerdureError):
        if as_json:
            print_error(error.code, error.message, error.hint)
        else:
            click.echo(f"error: {escaped(str(error))}", err=True)
        return error.exit_code
    if debug:
        raise error
    if as_json:
        print_error("unexpected", f"{type(error).__name__}: {error}", "Run again with --debug.")
    else:
        click.echo(
            f"error: unexpected {type(error).__name__}: {escaped(str(error))}. Run again with --debug for all of it.",
            err=True,
        )
    return 2


if __name__ == "__main__":
    main()
