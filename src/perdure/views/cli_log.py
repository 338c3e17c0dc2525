"""The lines of `cli.log`: the events of significance, readable."""

from perdure.base.clock import rfc3339
from perdure.base.jsonvalue import JSON
from perdure.kernel.events import Event

_QUIET_STEPS = frozenset({"step.started", "step.completed"})
_SHOWN = (
    "node_id",
    "status",
    "reason",
    "to_node",
    "message",
    "question",
    "attempt",
    "delay_ms",
    "exit_code",
    "duration_ms",
)


def log_line(event: Event) -> bytes | None:
    """The event as a line of text; None for steps that are no node, which would only make noise."""
    if event.event in _QUIET_STEPS and b'"node_id"' not in event.body:
        return None
    properties = event.properties
    parts = [rfc3339(event.ts), _level(event.event, properties), event.event]
    if event.step:
        parts.append(event.step if event.step.isprintable() else repr(event.step))
    for key in _SHOWN:
        value = properties.get(key)
        if value is not None and not isinstance(value, (dict, list)):
            text = str(value)
            text = text if len(text) <= 200 else f"{text[:199]}…"
            parts.append(f"{key}={text!r}" if isinstance(value, str) and not text.isalnum() else f"{key}={text}")
    failure = properties.get("failure")
    if isinstance(failure, dict):
        parts.append(f"failure={str(failure.get('message'))[:300]!r}")
    return " ".join(parts).encode("utf-8", "replace") + b"\n"


def _level(name: str, properties: dict[str, JSON]) -> str:
    level = properties.get("level")
    if isinstance(level, str):
        return level.upper()
    if name.endswith("failed"):
        return "ERROR"
    return "WARN" if name in ("step.retrying", "step.interrupted", "interview.timeout", "watchdog.timeout") else "INFO"
