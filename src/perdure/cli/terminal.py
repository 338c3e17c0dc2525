"""Questions at the terminal. The answer may come from elsewhere meanwhile; then the prompt goes away."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from perdure.cli.output import escaped

if TYPE_CHECKING:
    from perdure.cli.progress import Progress
    from perdure.kernel.interviewer import PendingQuestion
    from perdure.kernel.question import Answer, Question


def is_interactive() -> bool:
    """Whether a person sits at this process's terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def show_question(question: Question, step: str) -> None:
    """The question and its choices."""
    click.echo(err=True)
    if question.context:
        click.echo(f"  {escaped(question.context[-1_500:])}", err=True)
    click.echo(f"? {escaped(question.text)}  ({escaped(step)})", err=True)
    for option in question.options:
        click.echo(f"    [{escaped(option.key)}] {escaped(option.label)}", err=True)
    if question.type in ("yes_no", "confirmation") and not question.options:
        click.echo("    [y] Yes\n    [n] No", err=True)
    if question.allow_freeform or question.type == "freeform":
        click.echo("    or write your own answer", err=True)


class TerminalInterviewer:
    """Asks at the terminal. An empty line asks again; the end of input leaves the question open."""

    is_present = True

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._turn = asyncio.Lock()

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """The answer of the person at the terminal; None when the input ended."""
        async with self._turn:
            self._progress.end()
            self._progress.is_held = True
            try:
                return await self._answered(pending)
            finally:
                self._progress.is_held = False

    async def _answered(self, pending: PendingQuestion) -> Answer | None:
        from perdure.base.errors import Refused
        from perdure.service.running import answer_of

        show_question(pending.question, pending.step)
        while True:
            click.echo("> ", err=True, nl=False)
            line = await _read_line()
            if line is None:
                self.is_present = False
                click.echo("\n(no answer here; `perdure answer` works from elsewhere)", err=True)
                return None
            if not line.strip():
                continue
            try:
                return answer_of(line, pending.question)  # type: ignore[return-value]
            except Refused as error:
                click.echo(f"  {escaped(str(error))}", err=True)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _read_line() -> str | None:
    """A line from the terminal, without holding up the run; None at the end of input."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    handle = sys.stdin.fileno()
    loop.add_reader(handle, lambda: _set(ready))
    try:
        await ready
    finally:
        loop.remove_reader(handle)
    text = os.read(handle, 64 * 1024)
    return text.decode("utf-8", "replace") if text else None
