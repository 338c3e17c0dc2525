"""Talking with a program: it is run as a command is, and its standard input and output stay open in both directions."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.sandbox.command import CommandResult, CommandSpec, Filter, Output, check_command, run_process
from perdure.sandbox.groups import GRACE_S, Group
from perdure.sandbox.lines import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAX_LINE = 64 * 1024 * 1024
# So much may wait to be read before the program has to wait.
_MUCH = 1024 * 1024
# What a program that has ended printed may still be on its way.
_LATE_S = 1.0


class Pipes:
    """The two ends of a running program."""

    def __init__(self, talking: _Talking, transport: asyncio.SubprocessTransport) -> None:
        self._talking = talking
        self._in: Any = transport.get_pipe_transport(0)
        self._out: Any = transport.get_pipe_transport(1)

    def write(self, text: bytes) -> None:
        """Write without waiting; what nobody reads any more is lost."""
        if not self._in.is_closing():
            self._in.write(text)

    async def send(self, text: bytes) -> None:
        """Write, and wait while the program does not read."""
        self.write(text)
        await self._talking.can_write.wait()

    async def line(self) -> bytes | None:
        """The program's next line without its newline; None when there will be no more."""
        talking = self._talking
        while not talking.lines:
            if talking.is_over:
                return None
            self._out.resume_reading()
            talking.news.clear()
            await talking.news.wait()
        line = talking.lines.popleft()
        talking.size -= len(line)
        return line

    def close(self) -> None:
        """Nothing more is written: the program reads the end of its input."""
        self._in.close()


class _Talking(Output):
    """Output that is also read while it comes."""

    def __init__(self, stdout_path: str, stderr_path: str, new_filter: Callable[[], Filter] | None) -> None:
        super().__init__(stdout_path, stderr_path, new_filter, self._heard)
        self.lines: deque[bytes] = deque()
        self.size = 0
        self.is_over = False
        self.news = asyncio.Event()
        self.can_write = asyncio.Event()
        self.can_write.set()
        self._splitter = LineSplitter(MAX_LINE)
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self.can_write.set()
        if fd == 1:
            self._over()

    def process_exited(self) -> None:
        super().process_exited()
        asyncio.get_running_loop().call_later(_LATE_S, self._late)

    def _heard(self, name: str, data: bytes) -> None:
        if name == "stdout":
            for line in self._splitter.feed(data):
                self.lines.append(line)
                self.size += len(line)
            if self.size > _MUCH:
                self._transport.get_pipe_transport(1).pause_reading()
            self.news.set()

    def _late(self) -> None:
        """Who still holds the output a while after the program has ended is not waited for."""
        if self.size > _MUCH:
            asyncio.get_running_loop().call_later(_LATE_S, self._late)
        else:
            self._over()

    def _over(self) -> None:
        self.is_over = True
        self.can_write.set()
        self.news.set()


async def run_interactive(
    spec: CommandSpec,
    talk: Callable[[Pipes], Awaitable[None]],
    *,
    stdout_path: str,
    stderr_path: str,
    new_filter: Callable[[], Filter] | None = None,
    on_started: Callable[[Group], Awaitable[None]] | None = None,
) -> CommandResult:
    """Run the command and talk with it; when `talk` returns, its input ends, and soon the command with all that it started.

    At the time limit, or when the awaiting task is cancelled, `talk` is cancelled first, so that it can say goodbye. What `talk` raises
    is raised, once the command is ended. Otherwise like `run_command`.
    """
    check_command(spec)
    output = _Talking(stdout_path, stderr_path, new_filter)

    async def live(transport: asyncio.SubprocessTransport) -> None:
        pipes = Pipes(output, transport)
        await talk(pipes)
        pipes.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(output.ended), GRACE_S)

    return await run_process(msgspec.structs.replace(spec, stdin=b""), output, live, on_started)
