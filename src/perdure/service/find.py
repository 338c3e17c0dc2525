"""Which run a person means: a run folder, an id or its beginning, a workflow's name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.base.errors import NotFound, Refused
from perdure.base.names import check_run_reference

if TYPE_CHECKING:
    from perdure.service.state import State
    from perdure.store.records import RunRow

_SHOWN = 8


class AmbiguousRun(Refused):
    """Several runs are meant."""

    code = "ambiguous_run"


def find_run(state: State, reference: str) -> RunRow:
    """The run. A beginning of an id must be of one run only; of a name the newest run is taken.

    Raises `NotFound`, `AmbiguousRun`, `BadName`."""
    if os.sep in reference or reference in (".", ".."):
        return _by_folder(state, reference)
    check_run_reference(reference)
    store = state.store
    upper = reference.upper()
    exact = store.find_run(upper) if len(reference) == 26 else None
    if exact is not None:
        return exact
    found = store.find_runs(upper)
    if len(found) == 1:
        return found[0]
    if found:
        shown = "\n".join(f"  {row.run_id}  {row.name}" for row in found[:_SHOWN])
        raise AmbiguousRun(f"{reference} begins the ids of {len(found)} runs:\n{shown}", hint="Write more of the id.")
    named = _by_name(store.list_runs(), reference)
    if named is None:
        raise NotFound(
            f"No run has an id that begins with {reference!r}, and no workflow is named so.",
            hint="`perdure ps -a` lists all runs.",
        )
    return named


def _by_name(rows: list[RunRow], reference: str) -> RunRow | None:
    wanted = reference.lower()
    for row in rows:
        if row.name.lower() == wanted or f'"workflow_slug":"{wanted}"' in row.record:
            return row
    return next((row for row in rows if wanted in row.name.lower()), None)


def _by_folder(state: State, path: str) -> RunRow:
    name = os.path.basename(os.path.abspath(path))
    run_id = name.rpartition("-")[2]
    row = state.store.find_run(run_id) if len(run_id) == 26 else None
    if row is None:
        import msgspec

        try:
            with open(os.path.join(path, "run.json"), "rb") as file:
                value = msgspec.json.decode(file.read())
            row = state.store.find_run(str(value["run_id"]))
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            row = None
    if row is None:
        raise NotFound(
            f"{path} is no directory of a known run.", hint="`perdure rebuild --store` takes unknown ones in."
        )
    return row
