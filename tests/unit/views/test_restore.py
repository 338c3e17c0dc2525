"""A log comes back from its directory as whole as it can be, and says what it cost."""

from pathlib import Path

import pytest

from perdure.base.jsonvalue import decode, encode
from perdure.disk.blobs import Blobs
from perdure.views.restore import find_run_directories, read_run_directory

from .logs import BEGIN, ENDED, RUN, Fact, events_of, visit, write_live

FACTS: list[Fact] = [*BEGIN, *visit("plan"), *visit("test"), ENDED]
EVENTS = events_of(FACTS)
LINES = [event.line() for event in EVENTS]


def _read(folder: Path, content: bytes) -> tuple[int, list[str]]:
    """How many events come back, and what is said."""
    (folder / "progress.jsonl").write_bytes(content)
    found = read_run_directory(str(folder))
    assert found.events == EVENTS[: len(found.events)]
    assert found.run_id == (RUN if found.events else "")
    return len(found.events), found.problems


def test_a_whole_log_comes_back_whole(tmp_path: Path) -> None:
    assert _read(tmp_path, b"".join(LINES)) == (len(EVENTS), [])


def test_a_last_line_without_its_end_counts(tmp_path: Path) -> None:
    assert _read(tmp_path, b"".join(LINES)[:-1]) == (len(EVENTS), [])


def test_two_events_on_one_line_are_both_read(tmp_path: Path) -> None:
    assert _read(tmp_path, b"".join(LINES[:4]) + LINES[4][:-1] + b"".join(LINES[5:])) == (len(EVENTS), [])


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_last_line_costs_that_line_only(tmp_path: Path, cut: int) -> None:
    count, problems = _read(tmp_path, b"".join(LINES)[: -cut - 1])
    assert count == len(EVENTS) - 1
    assert [problem.startswith(f"line {len(EVENTS)} at byte ") for problem in problems] == [True]


def test_a_line_that_was_written_again_after_a_torn_one_is_taken(tmp_path: Path) -> None:
    content = b"".join(LINES[:4]) + LINES[4][:30] + b"\n" + b"".join(LINES[4:])
    count, problems = _read(tmp_path, content)
    assert (count, len(problems)) == (len(EVENTS), 1)


@pytest.mark.parametrize("bad", [b"\xff\xfe\n", b"\0" * 64 + b"\n", b"[" * 5000 + b"\n", b'{"seq": 5}\n', b"7\n"])
def test_a_foreign_line_costs_nothing_but_a_word(tmp_path: Path, bad: bytes) -> None:
    count, problems = _read(tmp_path, b"".join(LINES[:4]) + bad + b"".join(LINES[4:]))
    assert (count, len(problems)) == (len(EVENTS), 1)


def test_an_event_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    assert _read(tmp_path, b"".join(LINES[:5] + LINES[2:])) == (len(EVENTS), [])


def test_after_a_gap_nothing_is_taken(tmp_path: Path) -> None:
    count, problems = _read(tmp_path, b"".join(LINES[:3] + LINES[4:]))
    assert count == 3
    assert "event 5 follows event 3" in problems[0]


def test_of_two_different_events_with_one_number_the_first_is_taken(tmp_path: Path) -> None:
    other = events_of(FACTS, seed=7)[3].line()
    count, problems = _read(tmp_path, b"".join([*LINES[:4], other, *LINES[4:]]))
    assert count == len(EVENTS)
    assert "another event 4" in problems[0]


def test_an_event_of_another_run_is_not_taken(tmp_path: Path) -> None:
    foreign = events_of(FACTS, run_id="0" * 26)[4].line()
    count, problems = _read(tmp_path, b"".join([*LINES[:4], foreign, *LINES[4:]]))
    assert count == len(EVENTS)
    assert "of run 00000" in problems[0]


def test_an_event_without_a_number_gets_the_next_and_unknown_fields_do_no_harm(tmp_path: Path) -> None:
    value = decode(LINES[3])
    assert isinstance(value, dict)
    del value["seq"]
    line = encode(value | {"from_a_later_version": True}) + b"\n"
    count, problems = _read(tmp_path, b"".join([*LINES[:3], line, *LINES[4:]]))
    assert count == len(EVENTS)
    assert "taken as event 4" in problems[0]


def test_an_empty_log_is_no_run(tmp_path: Path) -> None:
    assert _read(tmp_path, b"") == (0, [])


def test_child_runs_are_found_after_their_parents(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    parent = tmp_path / "runs/20260307-A"
    child = parent / "nodes/manager/child"
    write_live(parent, EVENTS, blobs)
    write_live(child, events_of(FACTS, run_id="0" * 26), blobs)
    (tmp_path / "runs/notes").mkdir()

    assert list(find_run_directories(str(tmp_path / "runs"))) == [str(parent), str(child)]
    assert list(find_run_directories(str(tmp_path / "nowhere"))) == []
