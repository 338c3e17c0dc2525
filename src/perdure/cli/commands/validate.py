"""perdure validate: check a workflow."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, current_folder, pairs, settings_of, wants_json
from perdure.cli.output import print_json, tell


@click.command()
@click.argument("workflow", metavar="FILE")
@click.option(
    "-v", "--var", "variables", multiple=True, callback=pairs, metavar="K=V", help="A value for $K in the graph."
)
@click.option("--dialect", type=click.Choice(["fabro", "attractor"]), help="Read the file as this dialect.")
@JSON_OPTION
@click.pass_context
def validate(
    context: click.Context, workflow: str, variables: dict[str, str], dialect: str | None, as_json: bool
) -> int:
    """Check a workflow: every finding with its place and its rule. Exit 2 when there are errors."""
    from perdure.disk.home import find_state_home
    from perdure.service.settings import read_settings
    from perdure.service.workflows import find_workflow, load_file, settings_diagnostics

    home = find_state_home(settings_of(context).state_dir, os.environ)
    path = find_workflow(workflow, current_folder(), home)
    config, graph_path, _toml = read_settings(path, home, current_folder())
    loaded, _files = load_file(graph_path, variables=config.variables | variables, dialect=dialect)
    found = [*loaded.diagnostics, *settings_diagnostics(config)]
    failed = loaded.graph is None or any(each.severity == "error" for each in found)
    if wants_json(context, as_json):
        print_json({"path": graph_path, "dialect": loaded.dialect.name, "diagnostics": found})
    else:
        graph = loaded.graph
        if graph is not None:
            tell(f"{graph.name}: {len(graph.nodes)} nodes, {len(graph.edges)} edges")
        tell(f"  {graph_path}")
        for each in found:
            tell(f"  {each.text()}")
        tell("Validation failed." if failed else "Validation: OK")
    return 2 if failed else 0
