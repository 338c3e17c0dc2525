"""Time as an argument: a clock is passed in, so that tests decide what time it is."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic_ms(self) -> float:
        """Milliseconds that never go back, from an arbitrary start."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000


_seconds: dict[int, str] = {}
_MILLIS = [f"{ms:03d}Z" for ms in range(1000)]


def rfc3339(ms: int) -> str:
    """Epoch milliseconds as RFC 3339 in UTC with milliseconds: `2026-03-07T09:30:00.125Z`."""
    second = ms // 1000
    try:
        text = _seconds[second]
    except KeyError:
        if len(_seconds) > 1000:
            _seconds.clear()
        text = _seconds[second] = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
    return text + _MILLIS[ms - second * 1000]


def parse_rfc3339(text: str) -> int:
    """Epoch milliseconds of an RFC 3339 time. Raises ValueError when it is none, or has no offset."""
    from datetime import datetime

    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return round(moment.timestamp() * 1000)
