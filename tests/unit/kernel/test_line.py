"""Who is next: decisions over the rows of slots, without a store."""

from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from perdure.kernel.capacity.line import Verdict, View, cause, decide, line
from perdure.store.records import SlotRow

ME, OTHER, DEAD = "me", "other", "dead"


def row(number: int, **more: object) -> SlotRow:
    values: dict[str, object] = {
        "id": number,
        "backend": "codex",
        "owner": ME,
        "run_id": "R1",
        "step": f"s{number}",
        "tags": "",
        "remaining": 0,
        "place": number,
        "asked_at": number,
        "taken_at": None,
    }
    return SlotRow(**(values | more))  # type: ignore[arg-type]


def decided(
    rows: list[SlotRow], *, limits: Mapping[str, int] | None = None, passed: Collection[int] = (), may: bool = True
) -> Verdict:
    view = View(ME, {"codex": 1} if limits is None else limits, DEAD.__eq__, lambda _id: may, passed)
    return decide(rows, view, 77)


def taken(rows: list[SlotRow], **more: object) -> list[int]:
    return [slot_id for slot_id, _at in decided(rows, **more).change.taken]  # type: ignore[arg-type]


def test_a_free_slot_is_taken() -> None:
    assert decided([row(1)]).change.taken == [(1, 77)]


def test_no_more_than_the_limit_is_taken() -> None:
    assert taken([row(1, taken_at=5), row(2), row(3), row(4)], limits={"codex": 3}) == [2, 3]


def test_another_backend_is_not_kept_waiting() -> None:
    assert taken([row(1, taken_at=5), row(2), row(3, backend="openai")]) == [3]


def test_what_a_dead_process_held_or_waited_for_is_dropped_first() -> None:
    change = decided([row(1, owner=DEAD, taken_at=5), row(2, owner=DEAD), row(3)]).change

    assert (list(change.dropped), [each for each, _at in change.taken]) == ([1, 2], [3])


def test_of_one_run_the_longest_way_goes_first() -> None:
    assert taken([row(1, remaining=1), row(2, remaining=9), row(3, remaining=9)]) == [2]


def test_a_long_way_gives_a_run_no_advantage_over_another_run() -> None:
    assert taken([row(1, run_id="R2", remaining=1), row(2, remaining=9)]) == [1]


def test_whoever_was_passed_within_the_run_keeps_a_place_and_another_run_is_next() -> None:
    rows = [row(1, remaining=1), row(2, run_id="R2"), row(3, remaining=9)]
    change = decided(rows).change

    assert ([each for each, _at in change.taken], list(change.places)) == ([3], [(1, 3)])
    assert taken([row(1, remaining=1, place=3), row(2, run_id="R2")]) == [2]


def test_the_slot_of_a_living_process_is_left_to_it_until_it_was_passed() -> None:
    rows = [row(1, owner=OTHER, run_id="R2"), row(2)]

    assert decided(rows).others_due == [1]
    assert taken(rows) == []
    assert taken(rows, passed=[1]) == [2]


def test_one_whose_run_is_to_pause_takes_nothing() -> None:
    assert taken([row(1)], may=False) == []


def test_a_tag_in_use_keeps_its_relatives_waiting_and_nobody_else() -> None:
    rows = [
        row(1, tags="screen:left", taken_at=5),
        row(2, tags="screen"),
        row(3, tags="mouse"),
        row(4, tags="screen:left:top"),
        row(5),
    ]

    assert taken(rows, limits={}) == [3, 5]


def test_one_that_waits_for_a_tag_alone_is_not_overtaken_by_those_who_want_the_same() -> None:
    rows = [row(1, tags="screen:left", taken_at=5), row(2, tags="screen"), row(3, tags="screen:right")]

    assert taken(rows, limits={}) == []


def test_one_that_waits_for_a_slot_keeps_no_tag() -> None:
    rows = [row(1, taken_at=5), row(2, tags="screen"), row(3, tags="screen", backend="openai")]

    assert taken(rows) == [3]


def test_tags_and_slot_are_taken_together_or_not_at_all() -> None:
    rows = [row(1, tags="screen", taken_at=5, backend="openai"), row(2, tags="screen mouse"), row(3)]

    assert taken(rows) == [3]


def test_why_one_waits() -> None:
    held = [row(1, taken_at=5), row(2, taken_at=5, tags="screen:left", backend="openai")]

    assert cause(row(3), held, {"codex": 1}) == (
        "Waiting for a free codex slot: the only one is in use on this machine (limits.json)."
    )
    assert cause(row(3), [*held, row(4, taken_at=1)], {"codex": 2}) == (
        "Waiting for a free codex slot: all 2 are in use on this machine (limits.json)."
    )
    assert cause(row(3, tags="screen"), held, {}) == (
        "Waiting for screen: step s2 of run R1 uses screen:left on this machine."
    )
    assert cause(row(3), held, {"codex": 4}) is None


WAITING = st.lists(st.tuples(st.sampled_from(["R1", "R2", "R3"]), st.integers(0, 3)), min_size=1, max_size=12)


@given(WAITING)
def test_each_run_is_served_as_often_and_as_early_as_first_come_first_served_would(
    waiting: list[tuple[str, int]],
) -> None:
    """The longest way first changes who of a run goes, never when the run's turn is."""
    rows = [row(n, run_id=run_id, remaining=remaining) for n, (run_id, remaining) in enumerate(waiting, 1)]
    served = []
    while rows:
        change = decided(rows).change
        [(slot_id, _at)] = change.taken
        served.append(next(each.run_id for each in rows if each.id == slot_id))
        places = dict(change.places)
        rows = [each._replace(place=places.get(each.id, each.place)) for each in rows if each.id != slot_id]

    assert served == [run_id for run_id, _remaining in waiting]


@given(WAITING)
def test_nobody_in_the_line_has_the_place_of_another(waiting: list[tuple[str, int]]) -> None:
    rows = [row(n, run_id=run_id, remaining=remaining) for n, (run_id, remaining) in enumerate(waiting, 1)]

    assert [place for _row, place in line(rows)] == list(range(1, len(rows) + 1))
