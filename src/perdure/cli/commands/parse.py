"""perdure parse: a workflow's syntax tree."""

from __future__ import annotations

import click

from perdure.cli.output import print_json, tell


@click.command()
@click.argument("workflow", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
def parse(workflow: str) -> int:
    """Print a workflow's syntax tree as JSON; syntax errors go to standard error, with exit 2."""
    from perdure.base.errors import Refused
    from perdure.graph.parser import parse as parse_text
    from perdure.graph.tree import to_json

    try:
        with open(workflow, encoding="utf-8") as file:
            source = file.read()
    except UnicodeDecodeError as error:
        raise Refused(f"{workflow} is no UTF-8 text: byte {error.start} cannot be read.") from error
    tree, found = parse_text(source.removeprefix("\ufeff"))
    for each in found:
        tell(f"{workflow}:{each.text()}")
    if tree is None or found:
        return 2
    print_json(to_json(tree))
    return 0
