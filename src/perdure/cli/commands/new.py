"""perdure new: a workflow to begin with."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, wants_json
from perdure.cli.output import print_json, say

GRAPH = """digraph {name} {{
    goal = "Say what this is for"
    rankdir = LR

    start [shape=Mdiamond]
    exit [shape=Msquare]

    check [shape=parallelogram, label="Check", script="echo checking"]
    approve [shape=hexagon, label="Is it good?"]

    start -> check
    check -> approve [condition="outcome=succeeded"]
    check -> exit [condition="outcome=failed"]
    approve -> exit [label="[Y] Yes"]
    approve -> check [label="[N] No, again"]
}}
"""


@click.group()
def new() -> None:
    """Make a new workflow to begin with."""


@new.command("graph")
@click.argument("name")
@JSON_OPTION
@click.pass_context
def new_graph(context: click.Context, name: str, as_json: bool) -> int:
    """Make .perdure/workflows/NAME/workflow.fabro, a graph that runs as it is."""
    from perdure.base.errors import EnvironmentFault, Refused
    from perdure.base.names import check_plain_name

    check_plain_name(name, "workflow")
    word = "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in name)
    folder = os.path.join(".perdure", "workflows", name)
    path = os.path.join(folder, "workflow.fabro")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(GRAPH.format(name=word if not word[:1].isdigit() else f"_{word}"))
    except FileExistsError as error:
        raise Refused(f"{path} is there already; it was not overwritten.") from error
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written: {error.strerror}.") from error
    if wants_json(context, as_json):
        print_json({"name": name, "path": os.path.abspath(path)})
    else:
        say(f"Made {path}; `perdure run {name}` runs it.")
    return 0
