"""Mutex tags: names of things that one agent at a time may use. `use-computer:screen` is a part of `use-computer`.

Two tags conflict when they are equal or one is a part of the other; parts beside each other do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from perdure.base.errors import Refused

_TAG = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(:[A-Za-z_][A-Za-z0-9_-]*)*")


class BadTag(Refused):
    """A text that is no mutex tag."""

    code = "bad_mutex"


def parse_tags(text: str) -> tuple[str, ...]:
    """The tags of a list with commas, each once, in their order. Raises `BadTag`."""
    return checked_tags(piece for each in text.split(",") if (piece := each.strip()))


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """These tags, each once. Raises `BadTag` for one that is none."""
    found = tuple(dict.fromkeys(tags))
    for tag in found:
        if _TAG.fullmatch(tag) is None:
            raise BadTag(
                f"{tag[:80]!r} is no mutex tag.",
                hint="One is made of names with colons between, like use-computer:screen.",
            )
    return found


def conflicting(one: Iterable[str], other: Iterable[str]) -> tuple[str, str] | None:
    """The first two tags, one of each side, that exclude each other; None when there are none."""
    others = tuple(other)
    for tag in one:
        for held in others:
            if tag == held or covers(tag, held) or covers(held, tag):
                return tag, held
    return None


def covers(whole: str, part: str) -> bool:
    """Whether the one is the other, or a part of it."""
    return part == whole or part.startswith(f"{whole}:")
