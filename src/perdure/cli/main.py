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
    "permissions": (
        "perdure.cli.commands.permissions:permissions",
        "List and decide what agents may do in future runs.",
    ),
    "cancel": ("perdure.cli.commands.cancel:cancel", "End a run and its processes."),
    "pause": ("perdure.cli.commands.pause:pause", "Let a run stop after the step that it is at."),
    "steer": ("perdure.cli.commands.steer:steer", "Say something to the next agent of a run."),
    "rewind": ("perdure.cli.commands.rewind:rewind", "Go back: a new run that stands at a checkpoint of another."),
    "fork": ("perdure.cli.commands.fork:fork", "Branch off: a new run from a checkpoint of another."),
    "rm": ("perdure.cli.commands.rm:rm", "Remove settled runs."),
    "prune": ("perdure.cli.commands.prune:prune", "Remove old settled runs; shows them first."),
    "models": ("perdure.cli.commands.models:models", "List the models that a backend has."),
    "export": ("perdure.cli.commands.export:export", "Copy a run as files into a folder."),
    "rebuild": (
        "perdure.cli.commands.rebuild:rebuild",
        "Make lost files again from the log, or a lost log from files.",
    ),
    "validate": ("perdure.cli.commands.validate:validate", "Check a workflow."),
    "preflight": ("perdure.cli.commands.preflight:preflight", "Check all that a run needs, without running."),
    "parse": ("perdure.cli.commands.parse:parse", "Print a workflow's syntax tree as JSON."),
    "graph": ("perdure.cli.commands.graph:graph", "Draw a workflow."),
    "new": ("perdure.cli.commands.new:new", "Make a new workflow to begin with."),
    "workflow": ("perdure.cli.commands.workflow:workflow", "List workflows."),
    "artifact": ("perdure.cli.commands.artifact:artifact", "List or copy files that a run captured."),
    "session": ("perdure.cli.commands.session:session", "List or read conversations of agents."),
    "settings": ("perdure.cli.commands.settings:settings", "Print the settings that hold, and where each comes from."),
    "secret": ("perdure.cli.commands.secret:secret", "Keep secrets for runs."),
    "df": ("perdure.cli.commands.df:df", "Show what takes up space in the state."),
    "doctor": ("perdure.cli.commands.doctor:doctor", "Look for trouble; changes nothing."),
    "completion": ("perdure.cli.commands.completion:completion", "Print a shell's completion script."),
    "execute-detached": ("perdure.cli.commands.execute_detached:execute_detached", ""),
}
HIDDEN = frozenset({"execute-detached"})


class ReaderGone(Exception):
    """Whoever read standard output has closed it."""


class LazyGroup(click.Group):
    """Commands by name, each imported when it is wanted."""

    def invoke(self, context: click.Context) -> Any:
        """As click does, but a closed pipe is told apart from a failure."""
        try:
            return super().invoke(context)
        except BrokenPipeError as error:
            raise ReaderGone from error

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

    state_dir: str | None = None
    as_json = False
    quiet = False
    verbose = False
    debug = False


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--state-dir", metavar="DIR", help="Where the state is; beats PERDURE_STATE_HOME.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON on standard output.")
@click.option("--quiet", is_flag=True, help="Print results only.")
@click.option("--verbose", is_flag=True, help="Tell of every event of a run.")
@click.option("--debug", is_flag=True, help="Print tracebacks of unexpected errors.")
@click.version_option(__version__, "-V", "--version", message="perdure %(version)s")
@click.pass_context
def cli(context: click.Context, state_dir: str | None, as_json: bool, quiet: bool, verbose: bool, debug: bool) -> None:
    """Runs agent work that must not be lost. Kill it anywhere: it goes on from the last finished step."""
    settings: Settings = context.obj
    settings.state_dir = state_dir
    settings.as_json = settings.as_json or as_json
    settings.quiet, settings.verbose, settings.debug = quiet, verbose, debug


def main(arguments: list[str] | None = None) -> None:
    """The console entry: exit codes are those of docs/reference/exit-codes.md."""
    given = sys.argv[1:] if arguments is None else arguments
    _open_streams()
    sys.exit(run(given))


def _open_streams() -> None:
    """Standard streams that are there, also when the caller closed them, and that take every text."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The number must be taken: else the next file that is opened gets it, and what is printed goes into that.
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code."""
    settings = Settings()
    settings.as_json = "--json" in arguments or os.environ.get("PERDURE_JSON", "") not in ("", "0")
    try:
        _check_text(arguments)
        result: Any = cli.main(args=arguments, prog_name="perdure", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _interrupted(settings)
    except click.ClickException as error:
        return _usage(error, settings)
    except (ReaderGone, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:  # noqa: BLE001 - the last resort: one line for people, all of it in a file or with --debug
        return _failed(error, settings)
    return result if isinstance(result, int) else 0


def _check_text(arguments: list[str]) -> None:
    """What is recorded is UTF-8, so what is given must be."""
    for each in arguments:
        if not each.isascii():
            try:
                each.encode()
            except UnicodeEncodeError as error:
                raise click.UsageError(f"The argument {each!a} is no UTF-8 text.") from error


def _interrupted(settings: Settings) -> int:
    if settings.as_json:
        from perdure.cli.output import print_error

        print_error("interrupted", "Interrupted.", None)
    else:
        click.echo("Interrupted.", err=True)
    return 130


def _usage(error: click.ClickException, settings: Settings) -> int:
    if settings.as_json:
        from perdure.cli.output import print_error

        print_error("usage", error.format_message(), None)
    else:
        error.show()
    return 2


def _failed(error: Exception, settings: Settings) -> int:
    from perdure.base.errors import PerdureError
    from perdure.cli.output import escaped, print_error

    if isinstance(error, PerdureError):
        if settings.as_json:
            print_error(error.code, error.message, error.hint)
        else:
            click.echo(f"error: {escaped(str(error))}", err=True)
        return error.exit_code
    if settings.debug:
        raise error
    from perdure.cli.defect import keep_traceback

    path = keep_traceback(settings.state_dir, os.environ, error)
    hint = f"All of it is in {path}." if path else "Run again with --debug for all of it."
    text = f"unexpected {type(error).__name__}: {error}"
    if settings.as_json:
        print_error("unexpected", text, hint)
    else:
        click.echo(f"error: {escaped(text)}. {escaped(hint)}", err=True)
    return 2


if __name__ == "__main__":
    main()
