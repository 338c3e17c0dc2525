"""perdure parse: a workflow's syntax tree."""

from __future__ import annotations

import click

from perdure.cli.options import JSON_OPTION, wants_json
from perdure.cli.output import print_error, print_json, tell


@click.command()
@click.argument("workflow", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@JSON_OPTION
@click.pass_context
def parse(context: click.Context, workflow: str, as_json: bool) -> int:
    """Print a workflow's syntax tree as JSON; syntax errors go to standard error, with exit 2."""
    from perdure.base.errors import Refused
    from perdure.graph.parser import parse as parse_text
    from perdure.graph.tree import to_json

    try:
        with open(workflow, encoding="utf-8") as file:
            source = file.read()
    except OSError as error:
        raise Refused(f"{workflow} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{workflow} is no UTF-8 text: byte {error.start} cannot be read.") from error
    tree, found = parse_text(source.removeprefix("\ufeff"))
    if tree is None or found:
        texts = [f"{workflow}:{each.text()}" for each in found]
        if wants_json(context, as_json):
            print_error("invalid_graph", "\n".join(texts), None)
        for text in texts if not wants_json(context, as_json) else ():
            tell(text)
        return 2
    print_json(to_json(tree))
    return 0
