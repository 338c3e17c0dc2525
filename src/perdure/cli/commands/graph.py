"""perdure graph: draw a workflow."""

from __future__ import annotations

import sys

import click

from perdure.cli.options import JSON_OPTION, wants_json
from perdure.cli.output import print_json, say


@click.command()
@click.argument("workflow", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("-o", "--output", metavar="FILE", help="Where to; its ending chooses the format.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["svg", "dot", "png", "pdf"]),
    help="svg and dot need nothing; png and pdf need Graphviz.",
)
@click.option("-d", "--direction", type=click.Choice(["lr", "tb"]), help="Left to right, or top to bottom.")
@JSON_OPTION
@click.pass_context
def graph(
    context: click.Context, workflow: str, output: str | None, form: str | None, direction: str | None, as_json: bool
) -> int:
    """Draw a workflow as SVG, or with Graphviz as PNG or PDF."""
    from perdure.base.errors import Refused
    from perdure.graph.draw import draw
    from perdure.service.workflows import load_file

    loaded, _files = load_file(workflow)
    if loaded.graph is None:
        raise Refused("\n".join(each.text() for each in loaded.errors))
    ending = output.rpartition(".")[2].lower() if output and "." in output else ""
    chosen = form or (ending if ending in ("svg", "dot", "png", "pdf") else "svg")
    content = draw(loaded.graph, chosen, direction)
    as_json = wants_json(context, as_json)
    if output is None and as_json:
        if chosen not in ("svg", "dot"):
            raise click.UsageError(f"A {chosen} is no text for JSON: pass -o FILE.")
        print_json({"format": chosen, "content": content.decode()})
        return 0
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return 0
    try:
        with open(output, "wb") as file:
            file.write(content)
    except OSError as error:
        raise Refused(f"{output} cannot be written: {error.strerror}.") from error
    print_json({"format": chosen, "output": output}) if as_json else say(output)
    return 0
