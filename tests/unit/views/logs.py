"""Logs for the tests of views, and a look at what became of them."""

import random
from collections.abc import Sequence
from pathlib import Path

from perdure.base.jsonvalue import JSON, encode
from perdure.disk.blobs import Blobs
from perdure.kernel.events import Event
from perdure.views.run_directory import RunDirectory

RUN = "01M8C0RUNDRECT0RYTEST00000"
START_MS = 1_772_875_800_125
Fact = tuple[str, str | None, dict[str, JSON]]

CREATED: Fact = (
    "run.created",
    None,
    {
        "definition": {"kind": "graph", "name": "ship", "body": {}},
        "workflow_source": "digraph ship {}\n",
        "input": None,
    },
)
SUBMITTED: Fact = ("run.submitted", None, {})
STARTED: Fact = ("run.started", None, {"name": "ship"})
ENDED: Fact = ("run.completed", None, {"status": "succeeded", "duration_ms": 9})
BEGIN = [CREATED, SUBMITTED, STARTED]


def events_of(facts: Sequence[Fact], *, run_id: str = RUN, seed: int = 0) -> list[Event]:
    """The facts as a log; another seed gives other event ids."""
    ids = random.Random(seed)
    return [
        Event(ids.randbytes(16), START_MS + 250 * seq, run_id, seq, name, step, encode(properties))
        for seq, (name, step, properties) in enumerate(facts, 1)
    ]


def visit(node: str, step: str | None = None, **result: JSON) -> list[Fact]:
    """One visit of a node, from its start to its end."""
    about: dict[str, JSON] = {"node_id": node, "node_label": node.title(), "attempt": 1}
    outcome: dict[str, JSON] = {"status": "succeeded", **result}
    end: dict[str, JSON] = {**about, "duration_ms": 5, "result": outcome}
    return [("step.started", step or node, about), ("step.completed", step or node, end)]


def asked(question_id: str, **more: JSON) -> Fact:
    """A gate asks."""
    properties: dict[str, JSON] = {
        "question_id": question_id,
        "question": "Ship it?",
        "question_type": "multiple_choice",
        "options": [{"key": "A", "label": "Approve"}, {"key": "R", "label": "Revise"}],
        "metadata": {"node_id": "gate"},
    }
    return ("interview.started", f"gate/{question_id}", properties | more)


def answered(question_id: str) -> Fact:
    return ("interview.completed", f"gate/{question_id}", {"question_id": question_id, "answer": {"kind": "yes"}})


def write_live(folder: Path, events: Sequence[Event], blobs: Blobs) -> RunDirectory:
    """The directory as a run that commits event by event leaves it."""
    view = RunDirectory(str(folder), blobs)
    for event in events:
        view.committed([event])
        view.flush()
    return view


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a directory."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
