"""Who executes a run: a claim that two processes cannot hold, and the truth about a claim whose process is gone."""

from collections.abc import Callable

import msgspec

from perdure.base.clock import rfc3339
from perdure.base.errors import OwnedElsewhere
from perdure.disk import process
from perdure.kernel.lifecycle import SETTLED, IllegalTransition
from perdure.store.records import RunRow


class Owner(msgspec.Struct, frozen=True):
    """The process that executes a run, and since when (epoch ms)."""

    identity: process.Identity
    since: int


_decoder = msgspec.json.Decoder(Owner)


def owner_text(now_ms: int) -> str:
    """This process as an owner, as the store keeps it."""
    return msgspec.json.encode(Owner(process.current(), now_ms)).decode()


def parse_owner(text: str) -> Owner:
    """The owner that the store keeps."""
    return _decoder.decode(text)


def liveness(row: RunRow) -> str:
    """Whether the run's owner lives: `none` when nobody owns it, else `alive`, `dead` or, on another host, `unknown`."""
    if row.owner is None:
        return "none"
    try:
        owner = parse_owner(row.owner)
    except msgspec.DecodeError:
        return "unknown"
    return process.liveness(owner.identity)


def describe(row: RunRow) -> str:
    """The owner for people: its pid, host and start."""
    if row.owner is None:
        return "nobody"
    try:
        owner = parse_owner(row.owner)
    except msgspec.DecodeError:
        return "an unreadable owner"
    return f"pid {owner.identity.pid} on host {owner.identity.host}, owner since {rfc3339(owner.since)}"


def judge(active: Callable[[str], bool]) -> Callable[[RunRow], None]:
    """The rule of a claim, for `Store.claim`: a settled run is not taken, nor one whose owner lives.

    `active` says whether this very process executes a run of that id."""

    def may_take(row: RunRow) -> None:
        if row.status in SETTLED:
            raise IllegalTransition(
                f"Run {row.run_id} is {row.status}; there is nothing left to do.", hint="Fork it to run it again."
            )
        state = liveness(row)
        if state in ("none", "dead"):
            return
        if state == "alive" and row.owner is not None:
            identity = parse_owner(row.owner).identity
            if identity == process.current() and not active(row.run_id):
                return
        way_out = "Attach to it instead." if state == "alive" else "It may be alive: settle it on its own host."
        raise OwnedElsewhere(f"Run {row.run_id} is owned by {describe(row)}.", hint=way_out)

    return may_take


def true_status(row: RunRow) -> str:
    """The run's status as it is: a run that should be at work but whose owner is gone is `interrupted`."""
    if row.status == "running" and liveness(row) in ("none", "dead"):
        return "interrupted"
    if row.status == "submitted" and liveness(row) == "dead":
        return "interrupted"
    return row.status
