"""perdure models: what a backend offers."""

from __future__ import annotations

import os

import click

from perdure.cli.options import JSON_OPTION, settings_of, wants_json
from perdure.cli.output import one_line, print_json, say

_WIDTH = 200


@click.command()
@click.argument("backend", metavar="BACKEND")
@click.option("--base-url", default="", metavar="URL", help="Where the provider is; beats the variables and settings.")
@JSON_OPTION
@click.pass_context
def models(context: click.Context, backend: str, base_url: str, as_json: bool) -> int:
    """List the models of BACKEND (openai, anthropic, openai-compatible, local) in its order: the name to use, a tab, the name to read."""
    from perdure.service.models import list_models

    found = list_models(backend, base_url, settings_of(context).state_dir, os.environ)
    if wants_json(context, as_json):
        rows = [{"slug": each.slug, "display_name": each.display_name} for each in found]
        print_json({"backend": backend, "models": rows})
        return 0
    for each in found:
        say(f"{one_line(each.slug, _WIDTH)}\t{one_line(each.display_name, _WIDTH)}")
    return 0
