"""What every store promises. One suite; each store that is added joins the parameters."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from perdure.base.errors import EnvironmentFault, NotFound
from perdure.store import opening
from perdure.store.protocol import Store
from perdure.store.records import Change, ClaimLost, EventRow, NewRun, RunExists, RunRow, Settlement, StateRefused
from perdure.store.sqlite import SqliteStore


@pytest.fixture(params=["full", "normal"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = SqliteStore.open(str(tmp_path / "state.sqlite"), durability=request.param)
    yield made
    made.close()


def new_run(run_id: str = "R1", **more: object) -> NewRun:
    values: dict[str, object] = {
        "run_id": run_id,
        "name": "n",
        "kind": "graph",
        "status": "submitted",
        "created_at": 1,
        "run_dir": "/d",
        "record": "{}",
    }
    return NewRun(**(values | more))  # type: ignore[arg-type]


def event(seq: int, name: str = "e") -> EventRow:
    return EventRow(seq, bytes(16), seq, name, None, b"{}")


def anyone(_row: RunRow) -> None:
    """Every claim is allowed."""


def test_what_was_appended_is_read_back_in_order(store: Store) -> None:
    claim = store.insert_run(new_run(owner="me"), [event(1)])
    store.append(claim, [event(2), event(3)])

    assert [row.seq for row in store.read_events(claim.no)] == [1, 2, 3]
    assert [row.seq for row in store.read_events(claim.no, after=2)] == [3]
    last = store.last_event(claim.no)
    assert last is not None
    assert last.seq == 3


def test_logs_of_two_runs_never_mix(store: Store) -> None:
    one = store.insert_run(new_run("R1", owner="me"), [event(1)])
    two = store.insert_run(new_run("R2", owner="me"), [event(1)])
    store.append(one, [event(2)])

    assert len(store.read_events(one.no)) == 2
    assert len(store.read_events(two.no)) == 1
    store.delete_run(one.no)
    assert store.read_events(one.no) == []
    assert len(store.read_events(two.no)) == 1


def test_a_second_event_with_one_number_is_refused_and_the_whole_commit_with_it(store: Store) -> None:
    claim = store.insert_run(new_run(owner="me"), [event(1)])
    with pytest.raises(apsw.ConstraintError):
        store.append(claim, [event(2), event(1)], Change(status="running"))

    assert [row.seq for row in store.read_events(claim.no)] == [1]
    row = store.find_run("R1")
    assert row is not None
    assert row.status == "submitted"


def test_an_older_claim_writes_nothing(store: Store) -> None:
    old = store.insert_run(new_run(owner="me"), [])
    new = store.claim("R1", "you", anyone)
    with pytest.raises(ClaimLost):
        store.append(old, [event(1)])
    store.release(old)

    row = store.find_run("R1")
    assert row is not None
    assert row.owner == "you"
    store.append(new, [event(1)])


def test_a_refused_claim_changes_nothing(store: Store) -> None:
    store.insert_run(new_run(owner="me"), [])

    def refuse(_row: RunRow) -> None:
        raise EnvironmentFault("no")

    with pytest.raises(EnvironmentFault):
        store.claim("R1", "you", refuse)
    row = store.find_run("R1")
    assert row is not None
    assert (row.owner, row.epoch) == ("me", 1)
    with pytest.raises(NotFound):
        store.claim("R2", "you", anyone)


def test_a_run_id_is_there_once(store: Store) -> None:
    store.insert_run(new_run(), [])
    with pytest.raises(RunExists):
        store.insert_run(new_run(), [])


def test_only_the_first_answer_counts(store: Store) -> None:
    claim = store.insert_run(new_run(owner="me"), [])
    store.append(claim, [], Change(open_questions=(("Q1", "gate", 1, "{}"),)))

    assert store.answer("Q1", '"a"', 2)
    assert not store.answer("Q1", '"b"', 3)
    [question] = store.open_questions()
    assert question.answer == '"a"'


def test_asking_again_keeps_the_answer_that_came_meanwhile(store: Store) -> None:
    claim = store.insert_run(new_run(owner="me"), [])
    asked = Change(open_questions=(("Q1", "gate", 1, "{}"),))
    store.append(claim, [], asked)
    store.answer("Q1", '"a"', 2)
    store.append(claim, [], asked)

    assert [question.answer for question in store.open_questions(claim.no)] == ['"a"']


def test_a_settled_run_has_no_owner_and_no_open_question(store: Store) -> None:
    claim = store.insert_run(new_run(owner="me"), [])
    store.append(claim, [], Change(open_questions=(("Q1", "gate", 1, "{}"),)))
    store.append(claim, [], Change(settled=Settlement("failed", 9, '{"a":1}')))

    row = store.find_run("R1")
    assert row is not None
    assert (row.status, row.settled_at, row.owner, row.record) == ("failed", 9, None, '{"a":1}')
    assert store.open_questions() == []
    assert not store.answer("Q1", '"late"', 10)
    assert store.list_runs(open_only=True) == []
    assert len(store.list_runs()) == 1


def test_a_request_is_taken_once(store: Store) -> None:
    claim = store.insert_run(new_run(owner="me"), [])
    store.request(claim.no, "cancel", "{}", 1)
    [request] = store.open_requests(claim.no)
    store.append(claim, [], Change(taken_requests=(request.id,), at=2))

    assert store.open_requests(claim.no) == []


def test_runs_are_listed_newest_first(store: Store) -> None:
    for number, at in (("R1", 5), ("R2", 9), ("R3", 9)):
        store.insert_run(new_run(number, created_at=at, parent="R1" if number == "R3" else None), [])

    assert [row.run_id for row in store.list_runs()] == ["R3", "R2", "R1"]
    assert [row.run_id for row in store.find_runs("R")] == ["R3", "R2", "R1"]
    assert [row.run_id for row in store.child_runs("R1")] == ["R3"]


# One file, many processes


_WORKER = """
import sys
from perdure.store.records import EventRow, NewRun
from perdure.store.sqlite import SqliteStore
path, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore.open(path, durability="normal")
run = NewRun(name, "n", "graph", "submitted", 1, "/d", "{}", owner=name)
claim = store.insert_run(run, [EventRow(1, bytes(16), 1, "e", None, b"{}")])
for seq in range(2, 60):
    store.append(claim, [EventRow(seq, bytes(16), seq, "e", None, b"{}")])
store.close()
"""


def test_sixteen_processes_open_a_fresh_state_at_once_and_all_serve(tmp_path: Path) -> None:
    for turn in range(2):
        path = str(tmp_path / f"state{turn}.sqlite")
        command = [sys.executable, "-c", _WORKER, path]
        pipe = subprocess.PIPE
        workers = [subprocess.Popen([*command, f"R{n}"], stdin=pipe, stdout=pipe, text=True) for n in range(16)]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            worker.communicate("go\n", timeout=50)

        assert [worker.returncode for worker in workers] == [0] * 16
        store = SqliteStore.open(path)
        runs = store.list_runs()
        assert len(runs) == 16
        for run in runs:
            assert [row.seq for row in store.read_events(run.no)] == list(range(1, 60))
        store.close()


# Files that may not be changed


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_newer_schema_is_refused_and_left_byte_identical(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    SqliteStore.open(str(path)).close()
    db = apsw.Connection(str(path))
    db.execute(f"pragma user_version = {opening.SCHEMA_VERSION + 1}")
    db.execute("pragma journal_mode = delete")
    db.close()
    before = digest(path)

    with pytest.raises(StateRefused, match="newer Perdure"):
        SqliteStore.open(str(path))
    assert digest(path) == before


@pytest.mark.parametrize("kind", ["text", "database"])
def test_a_foreign_file_is_refused_and_left_byte_identical(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state.sqlite"
    if kind == "text":
        path.write_text("my diary\n" * 500)
    else:
        db = apsw.Connection(str(path))
        db.execute("create table songs (name text)")
        db.close()
    before = digest(path)

    with pytest.raises(StateRefused, match="left as it is"):
        SqliteStore.open(str(path))
    assert digest(path) == before


def test_an_older_schema_is_upgraded_with_all_its_runs(tmp_path: Path) -> None:
    """The file is built by the first schema alone, as its release would have left it."""
    path = tmp_path / "state.sqlite"
    db = apsw.Connection(str(path))
    schema = Path(opening._SCHEMA) / "0001_initial.sql"
    db.execute(schema.read_text())
    db.execute(f"pragma application_id = {opening.APPLICATION_ID}; pragma user_version = 1")
    db.execute("insert into state_meta values ('state_id', 'kept')")
    db.execute(
        "insert into runs (run_id, name, kind, status, created_at, run_dir, record) values ('R1','n','graph','failed',1,'/d','{}')"
    )
    db.execute("insert into events values ((1 << 32) + 1, zeroblob(16), 1, 'run.created', null, '{}')")
    db.close()

    store = SqliteStore.open(str(path))
    row = store.find_run("R1")
    assert row is not None
    assert (row.status, row.parent) == ("failed", None)
    assert [each.event for each in store.read_events(row.no)] == ["run.created"]
    assert store.state_id() == "kept"
    store.close()


def test_an_upgrade_that_fails_leaves_the_old_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.sqlite"
    folder = tmp_path / "schema"
    shutil.copytree(opening._SCHEMA, folder)
    (folder / "0002_parents.sql").write_text("alter table runs add column parent text; create index x on nothing (y);")
    monkeypatch.setattr(opening, "_SCHEMA", str(folder))
    with pytest.raises(apsw.SQLError):
        SqliteStore.open(str(path))
    monkeypatch.undo()

    store = SqliteStore.open(str(path))
    assert store.list_runs() == []
    store.close()


def test_reading_a_state_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    assert SqliteStore.open_read_only(str(tmp_path / "state.sqlite")) is None
    assert list(tmp_path.iterdir()) == []


def test_reading_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    store = SqliteStore.open(str(path))
    store.insert_run(new_run(), [event(1)])
    store.close()
    before = (digest(path), path.stat().st_mtime_ns)

    reader = SqliteStore.open_read_only(str(path))
    assert reader is not None
    assert len(reader.list_runs()) == 1
    with pytest.raises(EnvironmentFault):
        reader.insert_run(new_run("R2"), [])
    reader.close()
    assert (digest(path), path.stat().st_mtime_ns) == before


def test_the_state_is_for_its_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = SqliteStore.open(str(tmp_path / "state.sqlite"))
        store.insert_run(new_run(), [])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(old)

    assert set(modes.values()) == {0o600}, modes


def test_a_damaged_state_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    store = SqliteStore.open(str(path))
    store.insert_run(new_run(), [event(seq) for seq in range(1, 200)])
    store.close()
    (tmp_path / "state.sqlite-wal").unlink(missing_ok=True)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(StateRefused, match="damaged"):
        SqliteStore.open(str(path)).read_events(1)


def test_a_query_is_data_with_a_name() -> None:
    from perdure.store.queries import SQL

    assert all(statement and "--" not in statement for statement in SQL.values())
