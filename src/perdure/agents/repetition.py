"""Whether an agent goes round in circles: the same tool calls, turn after turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from perdure.base.jsonvalue import JSON, decode, digest
from perdure.llm.protocol import ToolCall

WINDOW = 10
_PERIODS = (1, 2, 3)
# So many rounds in a row are told to the model, so many end the work. Whole rounds of the longest period fill the window.
_WARN_ROUNDS = 3
_STOP_TURNS = {1: 6, 2: 10, 3: 10}


class Repetition(msgspec.Struct, frozen=True):
    """What to do: tell the model (`text` goes to it), or stop with `text` as the reason."""

    action: Literal["warn", "stop"]
    period: int
    text: str


def turn_digest(calls: Sequence[ToolCall]) -> str:
    """One turn's calls by name and arguments, whatever the spelling of the JSON; "" for a turn without calls."""
    return digest([[each.name, _canonical(each.arguments)] for each in calls]) if calls else ""


def find_repetition(turns: Sequence[str]) -> Repetition | None:
    """What the digests of the turns so far, oldest first, ask for now; only the last ten count."""
    last = list(turns)[-WINDOW:]
    for period in _PERIODS:
        length = _repeating_tail(last, period)
        if length >= _STOP_TURNS[period]:
            text = f"The last {length} turns made the same tool calls{_round(period)}; the agent goes round in circles."
            return Repetition("stop", period, text)
        if length == _WARN_ROUNDS * period:
            text = (
                f"You have made the same tool calls{_round(period)} {_WARN_ROUNDS} times, and they will give the same results. "
                "Try something else, or say what keeps you from going on."
            )
            return Repetition("warn", period, text)
    return None


def _repeating_tail(turns: list[str], period: int) -> int:
    """How many of the last turns repeat with that period; 0 when the tail does not, or has turns without calls."""
    if len(turns) < 2 * period or not all(turns[-period:]):
        return 0
    length = period
    while length < len(turns) and turns[-length - 1] == turns[-length - 1 + period]:
        length += 1
    return length


def _round(period: int) -> str:
    return "" if period == 1 else f" in rounds of {period}"


def _canonical(arguments: str) -> JSON:
    try:
        return decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments.encode("utf-8", "replace").decode()
