"""Who is next: pure decisions over the rows of slots.

The line is first come, first served between runs. Within a run the one with the longest way still to go is served first, at the
place of whichever of its run stands foremost: so no run gains by it, and none starves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from perdure.kernel.capacity.tags import conflicting
from perdure.store.records import SlotChange, SlotRow


class View(NamedTuple):
    """How one process sees the line: who it is, the limits that it knows, whether an owner is gone, and which of its own rows may
    start now. `passed` are waiting rows of other processes that had their time to take what was theirs, and did not."""

    me: str
    limits: Mapping[str, int]
    is_gone: Callable[[str], bool]
    may_start: Callable[[int], bool]
    passed: Collection[int] = ()


class Verdict(NamedTuple):
    """What to write, and the waiting rows of other processes whose turn it is: they take what is theirs by themselves."""

    change: SlotChange
    others_due: list[int]


def decide(rows: Sequence[SlotRow], view: View, now_ms: int) -> Verdict:
    """Drop the rows of the dead, and give what is free to those of this process whose turn it is. A row takes its slot and all its
    tags or nothing; one that cannot is passed by those whom it does not concern."""
    gone = {owner for owner in {row.owner for row in rows} if owner != view.me and view.is_gone(owner)}
    dropped = [row.id for row in rows if row.owner in gone]
    living = [row for row in rows if row.owner not in gone]
    used = Counter(row.backend for row in living if row.taken_at is not None)
    closed = [tag for row in living if row.taken_at is not None for tag in row.tags.split()]
    waiting = [row for row in living if row.taken_at is None]
    places = {row.id: row.place for row in waiting}
    taken: list[tuple[int, int]] = []
    others_due: list[int] = []
    for row, place in line(waiting):
        mine = row.owner == view.me
        if not (view.may_start(row.id) if mine else row.id not in view.passed):
            continue
        limit = view.limits.get(row.backend)
        if limit is not None and used[row.backend] >= limit:
            continue
        tags = row.tags.split()
        is_closed = conflicting(tags, closed) is not None
        # Its tags are kept for it, lest one after the other of those behind it keeps them closed; the slot is not.
        closed += tags
        if is_closed:
            continue
        used[row.backend] += 1
        if not mine:
            others_due.append(row.id)
            continue
        taken.append((row.id, now_ms))
        _give_place(places, row, place, waiting)
    moved = [(row.id, places[row.id]) for row in waiting if places.get(row.id, row.place) != row.place]
    return Verdict(SlotChange(dropped, taken, moved), others_due)


def _give_place(places: dict[int, int], row: SlotRow, place: int, waiting: Iterable[SlotRow]) -> None:
    """The place that was used up goes; the one of its run who stood there gets the place that is left."""
    left = places.pop(row.id)
    if left == place:
        return
    for each in waiting:
        if _group(each) == _group(row) and places.get(each.id) == place:
            places[each.id] = left
            return


def line(waiting: Sequence[SlotRow]) -> list[tuple[SlotRow, int]]:
    """Those who wait, foremost first, each with the place that it is served at."""
    groups: dict[tuple[str, str, str], list[SlotRow]] = {}
    for row in waiting:
        groups.setdefault(_group(row), []).append(row)
    found: list[tuple[SlotRow, int]] = []
    for group in groups.values():
        places = sorted(row.place for row in group)
        found += zip(sorted(group, key=_urgency), places, strict=True)
    found.sort(key=lambda each: each[1])
    return found


def _group(row: SlotRow) -> tuple[str, str, str]:
    return row.run_id, row.backend, row.owner


def _urgency(row: SlotRow) -> tuple[int, int]:
    return -row.remaining, row.id


def cause(row: SlotRow, rows: Sequence[SlotRow], limits: Mapping[str, int]) -> str | None:
    """Why this row waits, for people; None when only its place in the line keeps it."""
    held = [each for each in rows if each.taken_at is not None]
    limit = limits.get(row.backend)
    if limit is not None and sum(each.backend == row.backend for each in held) >= limit:
        some = f"all {limit} are" if limit > 1 else "the only one is"
        return f"Waiting for a free {row.backend} slot: {some} in use on this machine (limits.json)."
    for each in held:
        found = conflicting(row.tags.split(), each.tags.split())
        if found is not None:
            return f"Waiting for {found[0]}: step {each.step} of run {each.run_id} uses {found[1]} on this machine."
    return None
