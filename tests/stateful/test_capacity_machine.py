"""Slots among several processes that ask, start, end and die in any order, over one real store.

The processes are simulated: each has a connection of its own and sees the line as a real one does.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.kernel.capacity.line import View, decide
from perdure.kernel.capacity.tags import conflicting
from perdure.store.records import SlotChange, SlotRequest, SlotRow
from perdure.store.sqlite import SqliteStore

LIMITS = {"codex": 2, "openai": 1}
OWNERS = ["a", "b", "c"]
TAGS = ["", "", "", "screen", "screen:left", "screen:right", "mouse", "screen:left mouse"]


class CapacityMachine(RuleBasedStateMachine):
    """`open` are the rows that living processes have, by id, with whether they hold."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.stores = {each: self.opened() for each in OWNERS}
        self.dead: set[str] = set()
        self.names = {each: each for each in OWNERS}
        self.open: dict[int, str] = {}
        self.births = 0

    def opened(self) -> SqliteStore:
        return SqliteStore.open(str(self.folder / "state.sqlite"), durability="normal")

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores.values():
                store.close()
            shutil.rmtree(self.folder)

    def change(self, owner: str, ask: SlotRequest | None = None, free: Sequence[int] = ()) -> SlotChange:
        name = self.names[owner]

        def decided(rows: Sequence[SlotRow]) -> SlotChange:
            return decide(rows, View(name, LIMITS, self.dead.__contains__, lambda _id: True), 1).change

        change = self.stores[owner].slots.change(decided, ask=ask, free=free)
        if change.asked is not None:
            self.open[change.asked] = owner
        return change

    def rows(self) -> list[SlotRow]:
        return self.stores["a"].slots.rows()

    def held(self) -> list[SlotRow]:
        return [row for row in self.rows() if row.taken_at is not None and row.owner not in self.dead]

    @rule(
        owner=st.sampled_from(OWNERS),
        backend=st.sampled_from([*LIMITS, "free"]),
        run_id=st.sampled_from(["1", "2"]),
        tags=st.sampled_from(TAGS),
        remaining=st.integers(0, 3),
    )
    def ask(self, owner: str, backend: str, run_id: str, tags: str, remaining: int) -> None:
        self.change(owner, SlotRequest(backend, self.names[owner], owner + run_id, "s", tags, remaining, 0))

    @rule(data=st.data())
    @precondition(lambda self: self.open)
    def end_or_cancel(self, data: st.DataObject) -> None:
        slot_id = data.draw(st.sampled_from(sorted(self.open)))
        self.change(self.open.pop(slot_id), free=[slot_id])

    @rule(owner=st.sampled_from(OWNERS))
    def look(self, owner: str) -> None:
        self.change(owner)

    @rule(owner=st.sampled_from(OWNERS))
    def die_and_begin_anew(self, owner: str) -> None:
        self.births += 1
        self.dead.add(self.names[owner])
        self.names[owner] = f"{owner}{self.births}"
        self.open = {slot_id: each for slot_id, each in self.open.items() if each != owner}

    @invariant()
    def no_backend_is_over_its_limit(self) -> None:
        used = Counter(row.backend for row in self.held())
        assert all(used[backend] <= limit for backend, limit in LIMITS.items())

    @invariant()
    def no_two_use_what_excludes_each_other(self) -> None:
        held = self.held()
        for index, one in enumerate(held):
            for other in held[index + 1 :]:
                assert conflicting(one.tags.split(), other.tags.split()) is None

    @invariant()
    def nobody_alive_is_lost(self) -> None:
        assert set(self.open) == {row.id for row in self.rows() if row.owner not in self.dead}

    @rule()
    def everyone_is_served_in_the_end(self) -> None:
        """When all who hold end, and all look, the line empties."""
        for _turn in range(2 * len(self.open) + 1):
            for row in self.held():
                self.change(self.open.pop(row.id), free=[row.id])
            for owner in OWNERS:
                self.change(owner)
        assert self.rows() == []


TestCapacity = CapacityMachine.TestCase
