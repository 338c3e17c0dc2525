"""An engine over a real SQLite file, with a program as its definition."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from perdure.base.jsonvalue import JSON
from perdure.kernel import definition as definitions
from perdure.kernel.context import RunContext
from perdure.kernel.ending import RunResult
from perdure.kernel.engine import Engine
from perdure.kernel.events import Event, event_of
from perdure.kernel.outcome import Outcome
from perdure.store.sqlite import SqliteStore

Program = Callable[[RunContext], Awaitable[Outcome]]


class ProgramDefinition:
    """A definition whose interpreter is a function of the test."""

    kind = "program"

    def __init__(self, program: Program, name: str = "program") -> None:
        self.name = name
        self.program = program
        definitions.register("program", lambda _body: self)

    def body(self) -> dict[str, JSON]:
        return {}

    def start_properties(self, run_id: str) -> dict[str, JSON]:
        return {}

    async def interpret(self, run: RunContext) -> Outcome:
        return await self.program(run)


class DictBlobs:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        self.content[digest] = content
        return digest

    def adopt(self, path: str) -> tuple[str, int]:
        content = Path(path).read_bytes()
        return self.put(content), len(content)

    def read(self, digest: str) -> bytes:
        return self.content[digest]


class Heard:
    """A subscriber that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def catch_up(self, events: Sequence[Event]) -> None:
        self.events.extend(events)

    def committed(self, events: Sequence[Event]) -> None:
        self.events.extend(events)

    def flush(self) -> None:
        pass


class Bench:
    """One state, and as many owners of it, one after the other, as a test needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = DictBlobs()
        self.store = SqliteStore.open(str(folder / "state.sqlite"), durability="normal")
        self.engine = self.new_engine()

    def new_engine(self, *, park: bool = False, **more: object) -> Engine:
        self.heard = Heard()
        return Engine(
            self.store,
            self.blobs,
            subscribers=lambda _run, _folder: [self.heard],
            run_dir=lambda run_id, _now: str(self.folder / run_id),
            park=park,
            seed=1,
            **more,  # type: ignore[arg-type]
        )

    def submit(self, program: Program, input: JSON = None) -> str:
        return self.engine.submit(ProgramDefinition(program), input=input)

    def execute(self, run_id: str, **more: object) -> RunResult:
        return asyncio.run(self.engine.execute(run_id, **more))  # type: ignore[arg-type]

    def run(self, program: Program, input: JSON = None) -> RunResult:
        return self.execute(self.submit(program, input))

    def events(self, run_id: str) -> list[Event]:
        row = self.store.find_run(run_id)
        assert row is not None
        return [event_of(run_id, each) for each in self.store.read_events(row.no)]

    def names(self, run_id: str) -> list[str]:
        return [event.event for event in self.events(run_id)]

    def cut(self, run_id: str, seq: int) -> None:
        """What a kill right after event `seq` leaves: the log up to there, and a run that is at work for nobody."""
        row = self.store.find_run(run_id)
        assert row is not None
        db = self.store._db
        db.execute("delete from events where key > ? and key < ?", ((row.no << 32) + seq, (row.no + 1) << 32))
        status = "running" if seq > 2 else "submitted"
        db.execute("update runs set status = ?, settled_at = null, owner = null where id = ?", (status, row.no))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()
