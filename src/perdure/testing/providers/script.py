"""What a fake provider answers: replies, in order or by the place in the conversation."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from perdure.base.errors import Refused

Fault = Literal[
    "",
    "status",  # an HTTP error: `status`, `headers`, `error`
    "silent",  # takes the request and never says a word
    "hang",  # begins to answer, then never goes on
    "drip",  # one event each `pause_ms`
    "cut",  # the connection is closed in the middle of an event
    "cut_clean",  # the body ends properly, in the middle of an event
    "early_end",  # the body ends properly after half of the events
    "empty",  # 200 with an empty body
    "page",  # 200 with a web page
    "wrong_model",  # another model answers
    "redirect",  # 307 to `location`
    "incomplete",  # the provider says that it ran into its limit of tokens
    "filtered",  # the provider says that it withheld the rest
    "failed",  # an error inside the stream
    "refused",  # the model refuses: `text` is what it says
    "bad_utf8",  # a byte in the text that is no UTF-8
]
Pick = Literal["order", "turn"]


class Call(msgspec.Struct, frozen=True):
    """A tool call of the model. `arguments` as a text is sent as it is, also when it is no JSON. `id` "" gets one."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer. `reasoning` is its public summary, None for a model that does not reason; `usage` None is not reported.

    `usage` has `input`, `output`, `cache_read`, `cache_write`, `reasoning`. `when` is a text that the first message of a user must
    contain. A `fault` happens `fault_times` times for each prompt, 0 is always; after that the same reply comes without it.
    """

    text: str = ""
    tool_calls: list[Call] = []
    reasoning: str | None = None
    usage: dict[str, int] | None = msgspec.field(default_factory=lambda: {"input": 10, "output": 5})
    when: str = ""
    fault: Fault = ""
    fault_times: int = 0
    status: int = 0
    headers: dict[str, str] = {}
    error: dict[str, Any] | None = None
    location: str = "http://127.0.0.1:9/elsewhere"
    pause_ms: int = 0
    model: str = ""


class Asked(msgspec.Struct, frozen=True):
    """What a script may know of a request: how many turns of the assistant it holds, its first user's text, its body and path."""

    number: int
    turn: int
    first_text: str
    path: str
    body: dict[str, Any]


Script = Sequence[Reply] | Callable[[Asked], Reply]


class Replies:
    """Chooses replies.

    `order`: each request takes the next one. `turn`: a request takes the one whose place is the number of turns in it, so that a
    request that is made again is answered again with the same; several conversations are told apart by `when`.
    """

    def __init__(self, script: Script, pick: Pick) -> None:
        self._script = script
        self._pick = pick
        self._next: dict[str, int] = {}
        self._faults: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()

    def choose(self, asked: Asked, prompt: str) -> Reply | None:
        """The reply, without a fault that has happened often enough; None when the script has none left."""
        with self._lock:
            if callable(self._script):
                return self._script(asked)
            fitting = [reply for reply in self._script if reply.when in asked.first_text]
            if any(reply.when for reply in fitting):
                fitting = [reply for reply in fitting if reply.when]
            when = fitting[0].when if fitting else ""
            place = asked.turn if self._pick == "turn" else self._next.get(when, 0)
            if place >= len(fitting):
                return None
            reply = fitting[place]
            happens = self._happens(reply, place, prompt)
            if not (happens and reply.fault_times):
                self._next[when] = place + 1
            return reply if happens or not _fault_of(reply) else msgspec.structs.replace(reply, fault="", status=0)

    def _happens(self, reply: Reply, place: int, prompt: str) -> bool:
        if not _fault_of(reply):
            return False
        key = (prompt, place)
        self._faults[key] = self._faults.get(key, 0) + 1
        return reply.fault_times == 0 or self._faults[key] <= reply.fault_times


def _fault_of(reply: Reply) -> str:
    return reply.fault or ("status" if reply.status else "")


def load_script(path: str) -> tuple[list[Reply], Pick]:
    """A JSON file: a list of replies, or `{"pick": "order" | "turn", "replies": [...]}`. Raises `Refused`."""

    class File(msgspec.Struct, forbid_unknown_fields=True):
        replies: list[Reply]
        pick: Pick = "turn"

    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        script = msgspec.convert({"replies": found} if isinstance(found, list) else found, File)
    except (OSError, ValueError) as error:
        raise Refused(f"The script {path} cannot be used: {error}.") from error
    return script.replies, script.pick
