"""The end of a `progress.jsonl`: up to which event of which run it goes."""

import os
from typing import NamedTuple

from perdure.disk import jsonl

_WINDOW = 64 * 1024


class Written(NamedTuple):
    """The last whole event of the file."""

    seq: int
    event_id: str
    run_id: str


def last_written(path: str) -> Written | None:
    """The last whole event; None when there is none, or no file. Reads from the end, as much as it needs."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return None
    window = _WINDOW
    while True:
        start = _line_start(path, max(0, size - window))
        last = None
        for found in jsonl.read(path, start) if start < size else ():
            if isinstance(found, jsonl.Record):
                last = _written(found) or last
        if last is not None or window >= size:
            return last
        window *= 8


def last_written_seq(path: str) -> int:
    """The number of the last whole event; 0 when there is none."""
    found = last_written(path)
    return 0 if found is None else found.seq


def _line_start(path: str, offset: int) -> int:
    """Where the first line begins that begins at the offset or later: a part of a line could look like a record."""
    if offset == 0:
        return 0
    with open(path, "rb") as file:
        file.seek(offset - 1)
        while piece := file.readline(_WINDOW):
            if piece.endswith(b"\n"):
                break
        return file.tell()


def _written(found: jsonl.Record) -> Written | None:
    value = found.value
    if not isinstance(value, dict) or "properties" not in value:
        return None
    seq = value.get("seq")
    if not isinstance(seq, int) or isinstance(seq, bool):
        return None
    return Written(seq, str(value.get("id")), str(value.get("run_id")))
