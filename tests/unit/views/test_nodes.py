"""Which folder the files of a visit go to."""

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perdure.disk.blobs import Blobs
from perdure.views.nodes import NodeFolders, folder_name

from .logs import BEGIN, Fact, events_of, tree, visit, write_live


def test_later_visits_are_numbered_from_two() -> None:
    folders = NodeFolders()

    assert [folders.enter(step, "work") for step in ("work", "work@2", "work@3")] == [
        "nodes/work",
        "nodes/work-visit_2",
        "nodes/work-visit_3",
    ]
    assert folders.enter("work@2", "work") == "nodes/work-visit_2"


@given(
    st.lists(st.sampled_from(["work", "work-visit_2", "work-visit_2-visit_1", "-visit_2", "a/b", "a%2Fb"]), max_size=12)
)
def test_no_two_visits_share_a_folder(nodes: list[str]) -> None:
    folders = NodeFolders()
    names = sorted(folders.enter(f"step-{number}", node) for number, node in enumerate(nodes))

    assert all(before != after for before, after in pairwise(names))


def test_a_step_inside_a_visit_writes_into_its_folder() -> None:
    folders = NodeFolders()
    folders.enter("work", "work")
    folders.enter("work@2", "work")

    assert folders.find("work@2/attempt-2/turn-1") == "nodes/work-visit_2"
    assert folders.enter("work@2/retry", "work") == "nodes/work-visit_2"
    assert folders.of_visit("work@2/retry") is None
    assert folders.enter("work@2/lint", "lint") == "nodes/lint"
    assert folders.find("elsewhere") is None


def test_every_folder_is_one_name() -> None:
    assert "/" not in folder_name("../../etc", 1)
    assert folder_name("..", 2) != ".."


def test_an_attempt_overwrites_and_a_failure_that_is_tried_again_is_no_status(tmp_path: Path) -> None:
    begin, end = visit("test")
    failed: Fact = ("step.failed", "test", {"node_id": "test", "failure": {"message": "no"}, "will_retry": True})
    prompt: Fact = ("step.prompt", "test/attempt-2", {"node_id": "test", "text": "again"})
    blobs = Blobs(str(tmp_path / "blobs"))
    write_live(tmp_path / "run", events_of([*BEGIN, begin, failed]), blobs)
    assert "nodes/test/status.json" not in tree(tmp_path / "run")
    write_live(tmp_path / "later", events_of([*BEGIN, begin, failed, begin, prompt, end]), blobs)

    assert [name for name in tree(tmp_path / "later") if name.startswith("nodes/")] == [
        "nodes/test/prompt.md",
        "nodes/test/status.json",
    ]
