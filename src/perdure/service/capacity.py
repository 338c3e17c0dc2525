"""The limits of this machine as a person set them, and who works and waits under them."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.clock import rfc3339
from perdure.kernel.capacity.limits import NO_LIMITS, Limits, read_limits

if TYPE_CHECKING:
    from perdure.disk.home import StateHome
    from perdure.store.protocol import Store
    from perdure.store.records import SlotRow


def machine_limits(home: StateHome) -> Limits:
    """What `limits.json` says now. Raises `BadLimits`."""
    if not os.path.lexists(home.limits):
        return NO_LIMITS
    from perdure.agents.backend import BACKENDS

    return read_limits(home.limits, BACKENDS)


def slots_found(store: Store, limits: Limits) -> list[dict[str, Any]]:
    """For `doctor`: how many slots are in use, and each who works or waits; a warning for one whose process is gone or elsewhere."""
    rows = store.slots.rows()
    used = Counter(row.backend for row in rows if row.taken_at is not None)
    named = sorted(used.keys() | limits.backends.keys())
    texts = [f"{name or 'mutex only'}: {used[name]} of {limits.backends.get(name, 'any number')}" for name in named]
    found = [{"level": "ok", "what": "slots", "text": f"in use: {', '.join(texts)}"}] if texts else []
    return found + [_row_found(row) for row in rows]


def _row_found(row: SlotRow) -> dict[str, Any]:
    from perdure.disk import process

    state, who = "unknown", "an unreadable owner"
    try:
        identity = msgspec.json.decode(row.owner, type=process.Identity)
    except msgspec.DecodeError:
        pass
    else:
        state, who = process.liveness(identity), f"pid {identity.pid} on host {identity.host}"
    what = " ".join(each for each in (row.backend, row.tags.replace(" ", ", ")) if each)
    does = (
        f"works since {rfc3339(row.taken_at)}" if row.taken_at is not None else f"waits since {rfc3339(row.asked_at)}"
    )
    text = f"{what}: step {row.step} of run {row.run_id} {does}, {who}"
    if state == "dead":
        text += "; that process is gone, and whoever asks next takes it off"
    elif state == "unknown":
        text += "; whether it lives cannot be told here"
    return {"level": "ok" if state == "alive" else "warn", "what": "slot", "text": text}


def limits_found(home: StateHome) -> tuple[dict[str, Any], Limits]:
    """For `doctor`: the limits, or what is wrong with them."""
    from perdure.base.errors import PerdureError

    try:
        limits = machine_limits(home)
    except PerdureError as error:
        return {"level": "error", "what": "limits.json", "text": str(error)}, NO_LIMITS
    texts = [f"{name} {number}" for name, number in limits.backends.items()]
    return {"level": "ok", "what": "limits.json", "text": ", ".join(texts) or "no limits"}, limits
