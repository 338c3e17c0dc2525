"""Writes docs/reference/cli.md from the program's own help. `--check` only says whether the page is current."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from perdure.cli.main import cli

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
WIDTH = 100
HEAD = """# Commands

This page is written by `make docs` from the program's help; do not edit it. RUN is a run's id, the beginning of one, a run
folder, or the name of a workflow (its newest run). [Exit codes](exit-codes.md) are the same for all commands;
[settings](settings.md) lists the variables that change what they do.
"""


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command that is not hidden, with its whole name, groups before what is in them."""
    yield from _walk("perdure", cli, None)


def _walk(
    name: str, command: click.Command, parent: click.Context | None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, parent=parent, info_name=name.rpartition(" ")[2], **settings)
    yield name, command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None and not found.hidden:
                yield from _walk(f"{name} {each}", found, context)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, command, context in commands():
        level = "##" if name.count(" ") < 2 else "###"
        parts.append(f"{level} {name}\n\n```text\n{_help(command, context)}\n```\n")
    return "\n".join(parts)


def _help(command: click.Command, context: click.Context) -> str:
    return "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        print(f"{PAGE}: {len(text.splitlines())} lines")
        return 0
    if PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is not current; run `make docs`.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
