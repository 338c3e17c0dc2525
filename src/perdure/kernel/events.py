"""The events of the log: one fact each, in one envelope.

`{id, ts, run_id, seq, event, step?, properties}`: `id` a UUIDv7, `ts` RFC 3339 in UTC with milliseconds, `seq` dense from 1
in one run, `step` the id of the step that it speaks of. docs/reference/events.md lists every name with its properties.
"""

import msgspec

from perdure.base import ids
from perdure.base.clock import parse_rfc3339, rfc3339
from perdure.base.jsonvalue import JSON, decode
from perdure.store.records import EventRow


class Event(msgspec.Struct, frozen=True):
    """One record of the log.

    `ts` is in epoch milliseconds. `body` is the properties as compact JSON, masked; `line()` is the event as it stands in
    `progress.jsonl`.
    """

    id: bytes
    ts: int
    run_id: str
    seq: int
    event: str
    step: str | None
    body: bytes

    @property
    def properties(self) -> dict[str, JSON]:
        """The decoded properties; decode once and keep it when you need it twice."""
        return decode(self.body)  # type: ignore[return-value]

    def line(self) -> bytes:
        """The event as one line of `progress.jsonl`, with its newline."""
        step = f'"step":{_text(self.step)},' if self.step is not None else ""
        head = (
            f'{{"id":"{ids.uuid_text(self.id)}","ts":"{rfc3339(self.ts)}","run_id":"{self.run_id}",'
            f'"seq":{self.seq},"event":"{self.event}",{step}"properties":'
        )
        return b"%b%b}\n" % (head.encode(), self.body)


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()


class _Envelope(msgspec.Struct):
    id: str
    ts: str
    run_id: str
    seq: int
    event: str
    properties: msgspec.Raw
    step: str | None = None


_envelopes = msgspec.json.Decoder(_Envelope)


def parse_line(line: bytes) -> Event:
    """The event of one line of `progress.jsonl`. Raises ValueError (`msgspec.DecodeError` is one) when it is none."""
    record = _envelopes.decode(line)
    return Event(
        ids.uuid_bytes(record.id),
        parse_rfc3339(record.ts),
        record.run_id,
        record.seq,
        record.event,
        record.step,
        bytes(record.properties),
    )


def event_of(run_id: str, row: EventRow) -> Event:
    """An event as the kernel speaks of it, from its row."""
    return Event(row.id, row.ts, run_id, row.seq, row.event, row.step, row.body)
