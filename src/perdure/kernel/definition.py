"""Definitions: what can be run. A notation registers how to load one from the JSON that its run recorded.

The registry is the only way from one notation to another: a graph node that runs a program asks for `load("prose", body)`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON
from perdure.kernel.outcome import Outcome

if TYPE_CHECKING:
    from perdure.kernel.context import RunContext


class Definition(Protocol):
    """Something that can be run.

    `kind` names the notation, `name` the definition for people. `body` is all that is needed to load it again in another
    process, on another day: the run records it. `interpret` is a plain, deterministic program over recorded steps.
    """

    kind: str
    name: str

    def body(self) -> dict[str, JSON]:
        """What the run records, and `load` gets back."""

    def start_properties(self, run_id: str) -> dict[str, JSON]:
        """Facts of the moment at which the run first starts (a base commit); `run.started` records them, and every
        interpretation finds them as `run.start`."""

    async def interpret(self, run: "RunContext") -> Outcome:
        """Run it. To resume is to call this again: steps that have a record answer at once."""


Loader = Callable[[dict[str, JSON]], Definition]

_loaders: dict[str, "Loader | str"] = {
    # A text is "module:function", imported only when such a definition is loaded.
    "graph": "perdure.graph.definition:load",
    "follow_up": "perdure.agents.loop.follow_up:load",
}


def register(kind: str, loader: Loader) -> None:
    """Say how definitions of a kind are loaded."""
    _loaders[kind] = loader


def load(kind: str, body: dict[str, JSON]) -> Definition:
    """The definition that a run recorded. Raises `Refused` for an unknown kind or a body that no longer loads."""
    loader = _loaders.get(kind)
    if loader is None:
        raise Refused(f"No notation {kind!r} is known here.", hint="A newer Perdure may know it.")
    if isinstance(loader, str):
        from importlib import import_module

        module, _, function = loader.partition(":")
        loader = getattr(import_module(module), function)
        _loaders[kind] = loader
    return loader(body)
