"""How a run goes, for people: a line a step when piped, a live line on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.output import duration, escaped, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.kernel.events import Event

_MARKS = {"succeeded": "✓", "partially_succeeded": "◐", "failed": "✗", "skipped": "-"}


class Progress:
    """Tells of a run's events as they are committed. It is a subscriber of the engine, and followers feed it too."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet
        self._verbose = verbose and not quiet
        self._live = sys.stderr.isatty() and not quiet
        self._running: dict[str, tuple[str, float]] = {}
        self.is_held = False

    def catch_up(self, events: Sequence[Event]) -> None:
        """What happened before is told by `show`."""

    def committed(self, events: Sequence[Event]) -> None:
        for event in events:
            self.tell(event)

    def flush(self) -> None:
        """The live line shows the time, unless a question stands in its place."""
        if self._live and self._running and not self.is_held:
            name, since = next(reversed(self._running.values()))
            more = f" (+{len(self._running) - 1})" if len(self._running) > 1 else ""
            click.echo(f"\r\x1b[K  … {name}{more}  {duration((time.monotonic() - since) * 1000)}", err=True, nl=False)

    def tell(self, event: Event) -> None:
        """One event."""
        if self._verbose:
            self._say_line(event)
        if self._quiet or not event.event.startswith(
            ("step.", "run.", "loop.", "watchdog.", "interview.", "agent.slot.")
        ):
            return
        handler = _TELLERS.get(event.event)
        if handler is not None:
            handler(self, event, event.properties)

    def end(self) -> None:
        """Take the live line away."""
        if self._live and not self.is_held:
            click.echo("\r\x1b[K", err=True, nl=False)

    def _say(self, text: str) -> None:
        self.end()
        click.echo(text, err=True)

    def _say_line(self, event: Event) -> None:
        from perdure.views.cli_log import log_line

        line = log_line(event)
        if line is not None:
            self._say(f"    {escaped(line.decode().rstrip())}")

    def _started(self, event: Event, properties: dict[str, Any]) -> None:
        if properties.get("node_id") and event.step is not None:
            self._running[event.step] = (
                one_line(str(properties.get("node_label") or event.step), 60),
                time.monotonic(),
            )
            self.flush()

    def _ended(self, event: Event, properties: dict[str, Any]) -> None:
        if not properties.get("node_id") or properties.get("will_retry"):
            return
        self._running.pop(event.step or "", None)
        result = properties.get("result")
        status = (result.get("status") if isinstance(result, dict) else None) or (
            "failed" if properties.get("failure") else "succeeded"
        )
        if properties.get("handler_type") in ("start", "exit"):
            return
        name = one_line(str(properties.get("node_label") or event.step), 60)
        where = f" ({one_line(event.step or '', 60)})" if event.step != properties.get("node_label") else ""
        text = f"  {_MARKS.get(status, '·')} {name}{where}  {duration(properties.get('duration_ms'))}"
        failure = properties.get("failure")
        if isinstance(failure, dict):
            text += f"\n      {one_line(str(failure.get('message')), 160)}"
        self._say(text)

    def _retrying(self, event: Event, properties: dict[str, Any]) -> None:
        wait = duration(properties.get("delay_ms"))
        self._say(
            f"  ↻ {event.step}: attempt {properties.get('attempt')} of {properties.get('max_attempts')} in {wait}"
        )

    def _interrupted(self, event: Event, _properties: dict[str, Any]) -> None:
        self._say(f"  ! {event.step} was interrupted; it starts again")

    def _notice(self, _event: Event, properties: dict[str, Any]) -> None:
        self._say(f"  {properties.get('level', 'info')}: {one_line(str(properties.get('message')), 300)}")

    def _answered(self, event: Event, properties: dict[str, Any]) -> None:
        answer = properties.get("answer") or {}
        said = ", ".join(answer.get("selected") or []) or answer.get("text") or answer.get("kind")
        self._say(f"  ? {event.step}: {one_line(str(said), 80)} (by {answer.get('by', 'person')})")

    def _queued(self, event: Event, properties: dict[str, Any]) -> None:
        self._say(f"  … {event.step}: {one_line(str(properties.get('text')), 160)}")

    def _restarted(self, _event: Event, properties: dict[str, Any]) -> None:
        self._say(f"  ↻ begins again at {properties.get('to_node')}")

    def _resumed(self, _event: Event, properties: dict[str, Any]) -> None:
        self._say(f"  goes on (resumption {properties.get('resumption')})")


_TELLERS: dict[str, Any] = {
    "step.started": Progress._started,
    "step.completed": Progress._ended,
    "step.failed": Progress._ended,
    "step.retrying": Progress._retrying,
    "step.interrupted": Progress._interrupted,
    "run.notice": Progress._notice,
    "run.resumed": Progress._resumed,
    "interview.completed": Progress._answered,
    "interview.timeout": Progress._answered,
    "agent.slot.waiting": Progress._queued,
    "loop.restart": Progress._restarted,
}
