"""What the table of slots of every store promises."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import pytest

from perdure.store import opening
from perdure.store.protocol import Store
from perdure.store.records import SlotChange, SlotRequest, SlotRow
from perdure.store.sqlite import SqliteStore


@pytest.fixture(params=["full", "normal"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = SqliteStore.open(str(tmp_path / "state.sqlite"), durability=request.param)
    yield made
    made.close()


def wish(step: str = "a") -> SlotRequest:
    return SlotRequest("codex", "me", "R1", step, "screen mouse", 3, 5)


def nothing(_rows: Sequence[SlotRow]) -> SlotChange:
    return SlotChange()


def ask(store: Store, step: str = "a") -> int:
    asked = store.slots.change(nothing, ask=wish(step)).asked
    assert asked is not None
    return asked


def test_whoever_asks_stands_at_the_end_of_the_line(store: Store) -> None:
    first, second = ask(store), ask(store, "b")

    assert store.slots.rows() == [
        SlotRow(first, "codex", "me", "R1", "a", "screen mouse", 3, first, 5, None),
        SlotRow(second, "codex", "me", "R1", "b", "screen mouse", 3, second, 5, None),
    ]


def test_the_decision_sees_the_newcomer_and_not_whom_was_let_go(store: Store) -> None:
    first = ask(store)
    seen: list[str] = []

    def look(rows: Sequence[SlotRow]) -> SlotChange:
        seen.extend(row.step for row in rows)
        return SlotChange()

    store.slots.change(look, ask=wish("b"), free=[first])

    assert seen == ["b"]


def test_what_was_decided_is_done_whole(store: Store) -> None:
    first, second, third = ask(store), ask(store, "b"), ask(store, "c")
    store.slots.change(lambda _rows: SlotChange([first], [(second, 9)], [(third, second)]))

    assert [(row.id, row.place, row.taken_at) for row in store.slots.rows()] == [
        (second, second, 9),
        (third, second, None),
    ]


def test_a_decision_that_fails_changes_nothing(store: Store) -> None:
    first = ask(store)

    def fail(_rows: Sequence[SlotRow]) -> SlotChange:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        store.slots.change(fail, ask=wish("b"), free=[first])

    assert [row.id for row in store.slots.rows()] == [first]


def test_an_id_is_never_given_twice(store: Store) -> None:
    first = ask(store)
    store.slots.change(nothing, free=[first])

    assert ask(store) > first


def test_the_durability_of_other_commits_stays_as_it_was(tmp_path: Path) -> None:
    store = SqliteStore.open(str(tmp_path / "state.sqlite"), durability="full")
    ask(store)

    assert store._db.pragma("synchronous") == 2
    store.close()


def test_a_state_that_is_older_than_slots_has_none_to_show_and_gets_its_table_when_it_is_opened(tmp_path: Path) -> None:
    """The file is built by the first two schemas alone, as their release would have left it."""
    path = tmp_path / "state.sqlite"
    db = apsw.Connection(str(path))
    for name in ("0001_initial.sql", "0002_parents.sql"):
        db.execute((Path(opening._SCHEMA) / name).read_text())
    db.execute(f"pragma application_id = {opening.APPLICATION_ID}; pragma user_version = 2")
    db.execute("insert into state_meta values ('state_id', 'kept')")
    db.execute(
        "insert into runs (run_id, name, kind, status, created_at, run_dir, record) values ('R1','n','graph','failed',1,'/d','{}')"
    )
    db.close()

    old = SqliteStore.open_read_only(str(path))
    assert old is not None
    assert old.slots.rows() == []
    old.close()

    store = SqliteStore.open(str(path))
    assert [row.run_id for row in store.list_runs()] == ["R1"]
    assert store.state_id() == "kept"
    assert ask(store) == 1
    store.close()
