"""What hears of committed events: views are subscribers."""

from collections.abc import Sequence
from typing import Protocol

from perdure.kernel.events import Event


class Subscriber(Protocol):
    """Hears of one run's events, in order, each exactly once in the life of this object.

    Everything it does can be done again from the log, so it may be behind after a kill: `catch_up` brings it level.
    It runs in the engine's own thread between two steps, so it must be quick, and it never raises for what the log holds.
    """

    def catch_up(self, events: Sequence[Event]) -> None:
        """All events of the run so far, when an owner takes over: do what was not done yet."""

    def committed(self, events: Sequence[Event]) -> None:
        """These events have just been committed."""

    def flush(self) -> None:
        """The run parks, settles or pauses: write what was put off."""
