"""What a fake provider was asked: every request, with how it ended."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

# Marks of how far a cache reaches are no part of what is asked.
_IGNORED = frozenset({"cache_control"})
_ASKED = ("model", "instructions", "system", "input", "messages", "tools")


class Recorded(msgspec.Struct):
    """One request. `prompt` is a digest of what was asked; `outcome` is "open", then "answered" (all of it was sent), "refused" (the
    provider found it wrong; `refusal` says why), "failed" (a scripted status), "broken" (a scripted fault), or "gone" (the
    client closed the connection)."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    prompt: str
    turn: int
    outcome: str = "open"
    refusal: str = ""
    sent_events: int = 0


class Log:
    """All requests, for tests in other threads and, line by line, for other processes."""

    def __init__(self, path: str | None) -> None:
        self.requests: list[Recorded] = []
        self._changed = threading.Condition()
        self._file = open(path, "a", encoding="utf-8") if path else None  # noqa: SIM115 - closed by `close`

    def begin(self, method: str, path: str, headers: dict[str, str], body: dict[str, Any], turn: int) -> Recorded:
        """A request that came."""
        with self._changed:
            number = len(self.requests) + 1
            found = Recorded(number, method, path, headers, body, digest(path, body), turn)
            self.requests.append(found)
            self._write({"event": "received", **msgspec.to_builtins(found)})
            self._changed.notify_all()
            return found

    def sent(self, request: Recorded) -> None:
        """One more event of the answer is on its way."""
        with self._changed:
            request.sent_events += 1
            self._changed.notify_all()

    def end(self, request: Recorded, outcome: str, refusal: str = "") -> None:
        """How it ended; the first word counts."""
        with self._changed:
            if request.outcome != "open":
                return
            request.outcome, request.refusal = outcome, refusal
            self._write(
                {
                    "event": outcome,
                    "number": request.number,
                    "prompt": request.prompt,
                    "turn": request.turn,
                    "refusal": refusal,
                }
            )
            self._changed.notify_all()

    def wait(self, is_true: Callable[[list[Recorded]], bool], limit_s: float) -> bool:
        """Waits until something is true of the requests; whether it became true in time."""
        end = time.monotonic() + limit_s
        with self._changed:
            while not is_true(self.requests):
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def counts(self) -> dict[str, int]:
        """How often each prompt was asked, answered or not."""
        with self._changed:
            return dict(Counter(request.prompt for request in self.requests if request.method == "POST"))

    def answered_twice(self) -> list[Recorded]:
        """Requests whose very prompt had been answered in full before."""
        with self._changed:
            seen: Counter[str] = Counter()
            found = []
            for request in self.requests:
                if request.outcome == "answered" and request.method == "POST":
                    seen[request.prompt] += 1
                    if seen[request.prompt] > 1:
                        found.append(request)
            return found

    def close(self) -> None:
        """Let go of the file."""
        with self._changed:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def digest(path: str, body: dict[str, Any]) -> str:
    """What was asked, in 16 hex digits: the same for the same conversation with the same model and tools."""
    asked = {key: _plain(body[key]) for key in _ASKED if key in body}
    text = json.dumps([path, asked], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in _IGNORED}
    return [_plain(each) for each in value] if isinstance(value, list) else value
