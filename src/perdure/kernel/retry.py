"""Retry policies: how often, and how long to wait. Each attempt and the time of the next are events of the log."""

import msgspec


class Retry(msgspec.Struct, frozen=True):
    """`max_attempts` tries in all; the n-th wait is `initial_ms * factor**(n-1)`, at most `max_ms`, times a random share
    between `jitter_low` and `jitter_high`."""

    max_attempts: int = 1
    initial_ms: int = 5_000
    factor: float = 2.0
    max_ms: int = 60_000
    jitter_low: float = 0.5
    jitter_high: float = 1.5

    def delay_ms(self, failed_attempts: int, share: float) -> int:
        """The wait after so many failed attempts (from 1); `share` is a random number from 0 to 1."""
        base = min(self.initial_ms * self.factor ** (failed_attempts - 1), self.max_ms)
        return round(base * (self.jitter_low + (self.jitter_high - self.jitter_low) * share))


NO_RETRY = Retry()
