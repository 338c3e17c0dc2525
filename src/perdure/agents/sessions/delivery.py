"""Text as it comes from a model, gathered so that few writes show it to whoever looks on. Nothing here is ever needed again.

Secrets are kept out across pieces, so the last few hundred bytes of a block come out only when the block ends.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

import msgspec

from perdure.agents.sessions.events import Delivery, DeliveryState
from perdure.base.clock import Clock
from perdure.base.masking import Masker
from perdure.llm.protocol import DeltaKind

INTERVAL_MS = 100
_MOST_WAITING = 256 * 1024


class _Block:
    """One block's text on its way: masked as a whole, cut between signs."""

    def __init__(self, mask: Masker | None) -> None:
        self._stream = mask.stream() if mask is not None else None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, text: str, *, is_last: bool) -> str:
        if self._stream is None:
            return text
        out = self._stream.feed(text.encode("utf-8", "replace"))
        if is_last:
            out += self._stream.close()
        return self._decoder.decode(out, final=is_last)


class Deliveries:
    """What waits to be shown. `write` takes it and says whether it did; if not, it waits on."""

    def __init__(self, clock: Clock, mask: Masker | None, write: Callable[[list[Delivery]], bool]) -> None:
        self._clock = clock
        self._mask = mask
        self._write = write
        self._waiting: list[Delivery] = []
        self._size = 0
        self._blocks: dict[tuple[int, int, int], _Block] = {}
        self._written_ms = -float(INTERVAL_MS)
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self, turn: int, attempt: int, block: int, content_kind: DeltaKind, text: str, state: DeliveryState
    ) -> None:
        """Text of a block; the end of a block is written at once, anything else when it is time."""
        key = (turn, attempt, block)
        if key not in self._blocks and self._blocks and next(iter(self._blocks))[:2] != key[:2]:
            self._blocks.clear()
        is_last = state != "delta"
        shown = self._blocks.setdefault(key, _Block(self._mask)).feed(text, is_last=is_last)
        if is_last:
            del self._blocks[key]
        if shown or is_last:
            self._keep(
                Delivery(turn=turn, attempt=attempt, block=block, content_kind=content_kind, text=shown, state=state)
            )
        if is_last or self._clock.monotonic_ms() - self._written_ms >= INTERVAL_MS:
            self._flush()
        elif self._waiting:
            self._flush_later()

    def take(self) -> list[Delivery]:
        """What waits, for a write that happens anyway."""
        self._cancel()
        found, self._waiting, self._size = self._waiting, [], 0
        if found:
            self._written_ms = self._clock.monotonic_ms()
        return found

    def _keep(self, found: Delivery) -> None:
        if self._size > _MOST_WAITING:
            return  # nobody could write for long; what is final comes another way
        self._size += len(found.text)
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.state == "delta" and _place(last) == _place(found):
            self._waiting[-1] = msgspec.structs.replace(found, text=last.text + found.text)
        else:
            self._waiting.append(found)

    def _flush(self) -> None:
        self._cancel()
        self._written_ms = self._clock.monotonic_ms()
        if self._waiting and self._write(self._waiting):
            self._waiting, self._size = [], 0
        elif self._waiting:
            self._flush_later()

    def _flush_later(self) -> None:
        """When text stops coming, what came is shown all the same."""
        if self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._timer = loop.call_later(INTERVAL_MS / 1000, self._flush)

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def _place(found: Delivery) -> tuple[int, int, int, str]:
    return found.turn, found.attempt, found.block, found.content_kind
