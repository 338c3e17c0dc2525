"""Identifiers: ULIDs for runs and questions, UUIDv7 for events. Both sort by time.

Both are monotonic within one process: two made in the same millisecond still sort in the order
they were made. Randomness comes from the operating system.
"""

import os
import time

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(a + b for a in _CROCKFORD for b in _CROCKFORD)


class _Random:
    """The system's randomness, asked for in larger pieces: the call costs more than the bytes."""

    __slots__ = ("_at", "_pool")

    def __init__(self) -> None:
        self._pool = b""
        self._at = 0

    def take(self, count: int) -> int:
        """So many random bytes, as a number. A forked child must not use its parent's: see `os.register_at_fork` below."""
        end = self._at + count
        if end > len(self._pool):
            self._pool = os.urandom(4096)
            self._at, end = 0, count
        taken = self._pool[self._at : end]
        self._at = end
        return int.from_bytes(taken, "big")

    def forget(self) -> None:
        """Throw the rest of the pool away."""
        self._pool = b""


_random = _Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.forget)


class _Monotonic:
    """The last 128-bit value given out: milliseconds above, randomness below, never going back."""

    __slots__ = ("_last", "_random_bits")

    def __init__(self, random_bits: int) -> None:
        self._random_bits = random_bits
        self._last = 0

    def next(self, now_ms: int) -> int:
        last = self._last
        if now_ms <= last >> self._random_bits:
            # A step of at most 2^32 keeps the order and leaves the next value hard to guess.
            value = last + 1 + _random.take(4)
        else:
            random = _random.take(10) >> (80 - self._random_bits)
            value = now_ms << self._random_bits | random
        self._last = value
        return value


_ulids = _Monotonic(80)
_uuids = _Monotonic(74)


def now_ms() -> int:
    """Milliseconds since the epoch, by the wall clock."""
    return time.time_ns() // 1_000_000


def new_ulid(at_ms: int | None = None) -> str:
    """A 26-character ULID; later calls of this process sort later."""
    value = _ulids.next(now_ms() if at_ms is None else at_ms)
    text = [_PAIRS[(value >> shift) & 0x3FF] for shift in range(120, -1, -10)]
    return "".join(text)


def new_uuid7(at_ms: int | None = None) -> bytes:
    """The 16 bytes of a UUID version 7; later calls of this process sort later."""
    value = _uuids.next(now_ms() if at_ms is None else at_ms)
    high, low = value >> 62, value & 0x3FFF_FFFF_FFFF_FFFF
    bits = (high >> 12) << 80 | 0x7 << 76 | (high & 0xFFF) << 64 | 0b10 << 62 | low
    return bits.to_bytes(16, "big")


def uuid_text(raw: bytes) -> str:
    """The usual spelling of a UUID's 16 bytes."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a UUID's usual spelling."""
    return bytes.fromhex(text.replace("-", ""))


def is_ulid(text: str) -> bool:
    """Whether the text could be a whole ULID (26 signs of Crockford's alphabet)."""
    return len(text) == 26 and text[0] <= "7" and all(sign in _CROCKFORD for sign in text)


def ulid_ms(ulid: str) -> int:
    """Milliseconds since the epoch at which the ULID was made."""
    value = 0
    for sign in ulid[:10]:
        value = value << 5 | _CROCKFORD.index(sign)
    return value
