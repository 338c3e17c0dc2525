"""Figures of agent sessions: appending an event, opening and listing large files. The floor is one `write` of the same line."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

from perdure.agents.sessions.events import Review, encode_event, message_event
from perdure.agents.sessions.listing import list_sessions
from perdure.agents.sessions.reader import summary
from perdure.agents.sessions.writer import SessionWriter
from perdure.disk.home import StateHome
from perdure.llm.protocol import Message

Metric = dict[str, Any]


def session_metrics(folder: Path, times: int, quick: bool) -> dict[str, Metric]:
    """All figures of sessions, for the table."""
    megabytes = 30 if quick else 300
    home = StateHome(str(folder / "sessions"))
    event = message_event(1, Message("user", "x" * 1000))
    appended = [_append_ms(home, f"append-{number}", event) for number in range(times)]
    floors = [_write_ms(folder / "floor", encode_event(event) + b"\n") for _ in range(times)]
    path = _large(home, megabytes)
    for number in range(499):
        SessionWriter.open(home, Review(session_id=f"small-{number}", title="small")).close()
    about = {"megabytes": megabytes}
    return {
        "session_append": _metric(appended, "ms", {"bytes": 1000}, statistics.median(floors)),
        "session_open_large": _metric([_open_ms(home) for _ in range(times)], "ms", about),
        "session_summary_large": _metric([_timed_ms(lambda: summary(path)) for _ in range(times)], "ms", about),
        "session_list_500": _metric([_timed_ms(lambda: list_sessions(home)) for _ in range(times)], "ms", about),
    }


def _metric(values: list[float], unit: str, settings: dict[str, Any], floor: float | None = None) -> Metric:
    return {
        "value": round(statistics.median(values), 3),
        "unit": unit,
        "floor": None if floor is None else round(floor, 4),
        "settings": settings,
    }


def _append_ms(home: StateHome, session_id: str, event: Any) -> float:
    """Milliseconds an event."""
    with SessionWriter.open(home, Review(session_id=session_id)) as writer:
        return _timed_ms(lambda: [writer.append(event) for _ in range(2_000)]) / 2_000


def _write_ms(path: Path, line: bytes) -> float:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    took = _timed_ms(lambda: [os.write(handle, line) for _ in range(2_000)]) / 2_000
    os.close(handle)
    return took


def _large(home: StateHome, megabytes: int) -> str:
    SessionWriter.open(home, Review(session_id="large", title="large")).close()
    path = f"{home.agent_sessions}/large.jsonl"
    piece = b"".join(encode_event(message_event(turn, Message("user", "x" * 4000))) + b"\n" for turn in range(100))
    with open(path, "ab") as file:
        file.writelines(piece for _ in range(megabytes * 1_000_000 // len(piece) + 1))
    return path


def _open_ms(home: StateHome) -> float:
    """What going on in a large session costs: all of its events are looked at."""
    return _timed_ms(lambda: SessionWriter.open(home, Review(session_id="large")).close())


def _timed_ms(what: Any) -> float:
    begun = time.perf_counter()
    what()
    return (time.perf_counter() - begun) * 1000
