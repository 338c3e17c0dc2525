"""The table of slots in the SQLite store. See `protocol.SlotTable` for what each method promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from perdure.store.queries import SQL
from perdure.store.records import SlotRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from perdure.store.records import SlotChange, SlotRequest


_FULL = 2


class SqliteSlots:
    """Rows of `slots`."""

    def __init__(
        self,
        db: apsw.Connection,
        transaction: Callable[[str], AbstractContextManager[None]],
        explain: Callable[[apsw.Error], Exception],
    ) -> None:
        self._db = db
        self._transaction = transaction
        self._explain = explain
        self._is_full = db.pragma("synchronous") == _FULL

    def change(
        self,
        decide: Callable[[Sequence[SlotRow]], SlotChange],
        *,
        ask: SlotRequest | None = None,
        free: Sequence[int] = (),
    ) -> SlotChange:
        execute = self._db.execute
        # What a power loss takes here is worth nothing after it: every owner is dead then. So no commit waits for the disk.
        if self._is_full:
            execute("pragma synchronous = normal")
        try:
            with self._transaction("store.slots"):
                for slot_id in free:
                    execute(SQL["free_slot"], (slot_id,))
                if ask is not None:
                    asked: int = execute(SQL["ask_slot"], tuple(ask)).get
                change = decide(self._all())
                for slot_id in change.dropped:
                    execute(SQL["free_slot"], (slot_id,))
                for slot_id, place in change.places:
                    execute(SQL["place_slot"], (place, slot_id))
                for slot_id, at in change.taken:
                    execute(SQL["take_slot"], (at, slot_id))
        finally:
            if self._is_full:
                execute("pragma synchronous = full")
        return change if ask is None else change._replace(asked=asked)

    def rows(self) -> list[SlotRow]:
        try:
            if not self._db.execute(SQL["has_slots"]).fetchall():
                return []
            return self._all()
        except apsw.Error as error:
            raise self._explain(error) from error

    def _all(self) -> list[SlotRow]:
        return [SlotRow(*row) for row in self._db.execute(SQL["all_slots"])]
