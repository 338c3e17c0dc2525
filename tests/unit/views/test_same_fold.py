"""Whatever a log holds: written live, caught up after a cut, or made anew, the directory is the same, and nothing raises."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.base.jsonvalue import JSON, encode
from perdure.disk.blobs import Blobs
from perdure.views.projection import _HANDLERS
from perdure.views.rebuild import rebuild_run_directory
from perdure.views.restore import read_run_directory
from perdure.views.run_directory import RunDirectory

from .logs import BEGIN, ENDED, Fact, answered, asked, events_of, tree, visit, write_live

LOST: dict[str, JSON] = {"$blob": "0" * 64, "bytes": 3, "form": "text"}
_nodes = st.sampled_from(["plan", "test", "test-visit_2", "a/b", "..", "con", "ü", ""])


@st.composite
def _realistic(draw: st.DrawFn) -> list[Fact]:
    """Visits, commands, checkpoints and questions in any order."""
    facts: list[Fact] = list(BEGIN)
    counts: dict[str, int] = {}
    waiting: list[str] = []
    for number in range(draw(st.integers(0, 12))):
        node = draw(_nodes)
        counts[node] = counts.get(node, 0) + 1
        step = node if counts[node] == 1 else f"{node}@{counts[node]}"
        kind = draw(st.sampled_from(["visit", "command", "checkpoint", "ask", "answer", "wait"]))
        if kind == "visit":
            facts += visit(node, step, notes=draw(st.none() | st.text()), response=draw(st.none() | st.text()))
        elif kind == "command":
            begin, end = visit(node, step)
            told: dict[str, JSON] = {"stdout": draw(st.text() | st.just(LOST)), "stderr": "", "exit_code": 0}
            facts += [begin, ("command.started", step, {"command": "make"}), ("command.completed", step, told), end]
        elif kind == "checkpoint":
            changed: dict[str, JSON] = {"k": draw(st.integers()), "big": "file://cache/artifacts/values/big.json"}
            about: dict[str, JSON] = {"node_id": node, "completed": node, "context_values_set": changed}
            facts.append(("checkpoint.completed", None, about | {"offloaded": {"big": "v"}, "diff": "patch"}))
        elif kind == "ask":
            waiting.append(f"Q{number}")
            facts.append(asked(waiting[-1]))
        elif kind == "answer" and waiting:
            facts.append(answered(waiting.pop(draw(st.integers(0, len(waiting) - 1)))))
        elif kind == "wait":
            facts += [("run.waiting", None, {"questions": []}), ("run.running", None, {})]
    return [*facts, ENDED] if draw(st.booleans()) else facts


@settings(max_examples=40)
@given(facts=_realistic(), data=st.data())
def test_live_cut_and_anew_end_alike(facts: list[Fact], data: st.DataObject) -> None:
    events = events_of(facts)
    cut = data.draw(st.integers(1, len(events)), label="cut")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        blobs = Blobs(f"{place}/blobs")
        write_live(folder / "live", events, blobs)
        whole = tree(folder / "live")
        for number, first in enumerate((0, cut)):
            late = folder / f"late-{number}"
            write_live(late, events[:first], blobs)
            RunDirectory(str(late), blobs).catch_up(events)
            assert tree(late) == whole
        rebuild_run_directory(str(folder / "anew"), events, blobs)
        assert tree(folder / "anew") == whole
        restored = read_run_directory(str(folder / "live"))
        assert (restored.events, restored.problems) == (events, [])


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just(LOST) | st.just("../../x"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_KEYS = [
    "definition", "settings", "workflow_source", "status", "failure", "final_patch", "node_id", "step_id", "result", "will_retry",
    "duration_ms", "text", "provider_used", "stdout", "stderr", "context_values_set", "context_values_removed", "completed", "diff",
    "offloaded", "question_id", "options", "timeout_ms", "metadata", "results", "retro", "manifest", "folder", "message", "owner",
]  # fmt: skip


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(_HANDLERS)),
            st.none() | st.sampled_from(["a", "a/b", "../up", ""]),
            st.dictionaries(st.sampled_from(_KEYS), _values, max_size=6),
        ),
        max_size=6,
    )
)
def test_no_log_makes_it_raise_or_leave_its_directory(facts: list[Fact]) -> None:
    events = events_of([*BEGIN, *facts])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        blobs = Blobs(f"{place}/blobs")
        write_live(folder / "inside" / "run", events, blobs)
        rebuild_run_directory(f"{place}/inside/run", events, blobs)
        assert {path.name for path in folder.iterdir()} <= {"inside", "blobs"}
        assert [path.name for path in (folder / "inside").iterdir()] == ["run"]


def test_what_lies_in_a_blob_is_shown_like_what_lies_in_the_log(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    changes: dict[str, JSON] = {"k": 1}
    stored: dict[str, JSON] = {"$blob": blobs.put(encode(changes)), "bytes": 7, "form": "json"}
    for name, value in (("inline", changes), ("stored", stored)):
        facts: list[Fact] = [
            *BEGIN,
            *visit("plan"),
            ("checkpoint.completed", None, {"node_id": "plan", "context_values_set": value}),
        ]
        write_live(tmp_path / name, events_of(facts), blobs)

    assert (tmp_path / "inline/checkpoint.json").read_bytes() == (tmp_path / "stored/checkpoint.json").read_bytes()
