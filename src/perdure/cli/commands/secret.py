"""perdure secret: values that runs may use and nobody sees."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import print_json, say, tell

if TYPE_CHECKING:
    from perdure.disk.home import StateHome


@click.group()
def secret() -> None:
    """Keep secrets for runs, which get one where their settings say ${secret.NAME}. No command shows a value again."""


@secret.command("set")
@click.argument("name", metavar="NAME")
@JSON_OPTION
@click.pass_context
def set_one(context: click.Context, name: str, as_json: bool) -> int:
    """Keep a secret. Its value is asked for at a terminal, and else read from standard input, never from the command line."""
    from perdure.service.secrets import set_secret

    set_secret(_home(context), name, _value(name))
    if wants_json(context, as_json):
        print_json({"name": name})
    else:
        tell(f"Kept {name}.")
    return 0


@secret.command("list")
@JSON_OPTION
@click.pass_context
def list_all(context: click.Context, as_json: bool) -> int:
    """List the names of all secrets."""
    from perdure.service.secrets import read_secrets

    names = sorted(read_secrets(_home(context)))
    if wants_json(context, as_json):
        print_json([{"name": name} for name in names])
    for name in names if not wants_json(context, as_json) else []:
        say(name)
    return 0


@secret.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@JSON_OPTION
@click.pass_context
def remove(context: click.Context, names: tuple[str, ...], as_json: bool) -> int:
    """Forget secrets."""
    from perdure.service.secrets import remove_secret

    for name in names:
        remove_secret(_home(context), name)
    if wants_json(context, as_json):
        print_json({"removed": list(names)})
    else:
        tell(f"Forgot {', '.join(names)}.")
    return 0


def _home(context: click.Context) -> StateHome:
    from perdure.disk.home import find_state_home

    return find_state_home(settings_of(context).state_dir, os.environ)


def _value(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {name}", hide_input=True, err=True))
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise click.UsageError("The value on standard input is no UTF-8 text.") from None
