"""Running one command: its own session, output straight to files, a time limit that reaches every descendant.

The command is held before its first instruction until its process group was recorded, so that the next owner of the run can end
what a dead one left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import msgspec

from perdure.base import ids
from perdure.base.errors import EnvironmentFault
from perdure.disk import process
from perdure.disk.atomic import explained, write_all
from perdure.sandbox.groups import GRACE_S, MARK, Group, kill_all, members, send

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

# The child waits for a line on the gate's descriptor, then becomes the command. Without the line it ends.
_GATE = 'read -r go </dev/fd/GATE || exit 125; exec "$@"'


class Filter(Protocol):
    """Takes secrets out of output that comes in pieces."""

    def feed(self, piece: bytes) -> bytes:
        """What can be written now."""

    def close(self) -> bytes:
        """What was held back."""


class CommandSpec(msgspec.Struct, frozen=True):
    """What to run. `argv` is passed as it is, never through a shell; `timeout_ms` None is for ever."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes | None = None
    timeout_ms: int | None = None


class CommandResult(msgspec.Struct, frozen=True):
    """What came of it. `exit_code` is None after a timeout, negative for a signal. `survivors` are pids that would not go."""

    exit_code: int | None
    timed_out: bool
    duration_ms: int
    stdout_bytes: int
    stderr_bytes: int
    survivors: list[int]


class CommandMissing(EnvironmentFault):
    """The program is not there, or cannot be started."""

    code = "command_missing"


def script_argv(script: str, language: str) -> list[str]:
    """How a node's script is run: by bash (by sh where there is none), or by Python."""
    if language == "python":
        return [sys.executable or "python3", "-c", script]
    return [find_program("bash", os.environ.get("PATH")) or "/bin/sh", "-c", script]


def find_program(name: str, path: str | None) -> str | None:
    """Where a program is, by its name or path; None when it is not there or cannot be run."""
    if os.sep in name:
        return name if os.access(name, os.X_OK) else None
    for folder in (path or os.defpath).split(os.pathsep):
        found = os.path.join(folder, name)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return None


async def run_command(
    spec: CommandSpec,
    *,
    stdout_path: str,
    stderr_path: str,
    new_filter: Callable[[], Filter] | None = None,
    on_started: Callable[[Group], Awaitable[None]] | None = None,
    on_output: Callable[[str, bytes], None] | None = None,
) -> CommandResult:
    """Run the command and wait for it; memory stays flat however much it prints.

    `on_started` has returned before the command does anything; `on_output` hears at once, unfiltered, what is printed on "stdout" and
    "stderr". When the awaiting task is cancelled, the whole group is ended first. Raises `CommandMissing` when the program or the
    folder is not there.
    """
    check_command(spec)
    output = Output(stdout_path, stderr_path, new_filter, on_output)

    async def live(transport: asyncio.SubprocessTransport) -> None:
        _feed(transport, spec.stdin)
        await asyncio.shield(output.ended)

    return await run_process(spec, output, live, on_started)


async def run_process(
    spec: CommandSpec,
    output: Output,
    live: Callable[[asyncio.SubprocessTransport], Awaitable[None]],
    on_started: Callable[[Group], Awaitable[None]] | None,
) -> CommandResult:
    """The life of one process, in its order: held, recorded, let go, lived with by `live` within the time limit, ended with all that it
    started. A process that is there when `live` returns is ended too."""
    begun = time.monotonic()
    mark = ids.new_ulid()
    gate_read, gate_write = os.pipe()
    try:
        transport = await _spawn(spec, mark, gate_read, output)
    except OSError as error:
        os.close(gate_write)
        output.close()
        raise CommandMissing(f"{spec.argv[0]} cannot be started: {error.strerror}.") from error
    finally:
        os.close(gate_read)
    pid = transport.get_pid()
    group = Group(process.of_pid(pid) or process.Identity("", "", pid, 0), mark)
    timed_out = False
    try:
        if on_started is not None:
            await on_started(group)
        os.write(gate_write, b"go\n")
        limit = None if spec.timeout_ms is None else spec.timeout_ms / 1000
        try:
            await asyncio.wait_for(live(transport), limit)
        except TimeoutError:
            timed_out = True
        has_ended = output.ended.done() and not timed_out
        survivors = await _reap(group) if has_ended else await _end(output, group)
        with suppress(TimeoutError):
            # Who still holds a pipe after the group is gone is not waited for.
            await asyncio.wait_for(asyncio.shield(output.drained), 1.0)
    except BaseException:
        await asyncio.shield(_end(output, group))
        raise
    finally:
        os.close(gate_write)
        transport.close()
        output.close()
    if output.failure is not None:
        raise output.failure
    return CommandResult(
        exit_code=None if timed_out else transport.get_returncode(),
        timed_out=timed_out,
        duration_ms=round((time.monotonic() - begun) * 1000),
        stdout_bytes=output.sizes[1],
        stderr_bytes=output.sizes[2],
        survivors=survivors,
    )


class Output(asyncio.SubprocessProtocol):
    """Moves what the command prints to files as it comes, so that a slow disk slows the command and no memory fills.

    `ended` is done when the command has ended, `drained` when nobody holds its pipes any more.
    """

    def __init__(
        self,
        stdout_path: str,
        stderr_path: str,
        new_filter: Callable[[], Filter] | None,
        on_output: Callable[[str, bytes], None] | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()
        self.failure: EnvironmentFault | None = None
        self.sizes = {1: 0, 2: 0}
        self._paths = {1: stdout_path, 2: stderr_path}
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handles = {fd: os.open(path, flags, 0o600) for fd, path in self._paths.items()}
        self._filters = {fd: new_filter() for fd in self._paths} if new_filter is not None else {}
        self._on_output = on_output

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self._on_output is not None:
            self._on_output("stdout" if fd == 1 else "stderr", data)
        found = self._filters.get(fd)
        self._write(fd, data if found is None else found.feed(data))

    def process_exited(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.drained.done():
            self.drained.set_result(None)

    def close(self) -> None:
        """Write what was held back and close the files."""
        for fd, found in self._filters.items():
            self._write(fd, found.close())
        self._filters = {}
        for handle in self._handles.values():
            os.close(handle)
        self._handles = {}

    def _write(self, fd: int, text: bytes) -> None:
        if not text or self.failure is not None or fd not in self._handles:
            return
        try:
            write_all(self._handles[fd], text)
        except OSError as error:
            self.failure = explained(error, self._paths[fd])
            self.process_exited()
            return
        self.sizes[fd] += len(text)


def check_command(spec: CommandSpec) -> None:
    """Raises `CommandMissing` when the program or the folder is not there."""
    if not os.path.isdir(spec.cwd):
        raise CommandMissing(f"The folder {spec.cwd} is not there.", hint="Was it moved or removed?")
    program = spec.argv[0]
    inside = os.path.join(spec.cwd, program) if os.sep in program else program
    if find_program(inside, spec.env.get("PATH")) is None:
        raise CommandMissing(f"There is no program {program}.", hint="Install it, or correct its name.")


async def _spawn(spec: CommandSpec, mark: str, gate: int, output: Output) -> asyncio.SubprocessTransport:
    env = dict(spec.env) | {MARK: mark}
    transport, _protocol = await asyncio.get_running_loop().subprocess_exec(
        lambda: output,
        "/bin/sh",
        "-c",
        _GATE.replace("GATE", str(gate)),
        "perdure",
        *spec.argv,
        cwd=spec.cwd,
        env=env,
        stdin=asyncio.subprocess.PIPE if spec.stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        pass_fds=(gate,),
    )
    return transport


def _feed(transport: asyncio.SubprocessTransport, text: bytes | None) -> None:
    pipe = transport.get_pipe_transport(0)
    if text is not None and pipe is not None:
        pipe.write(text)  # type: ignore[attr-defined]
        pipe.close()


async def _reap(group: Group) -> list[int]:
    """The command has ended: so does what it left running in the background."""
    if not members(group):
        return []
    return await asyncio.get_running_loop().run_in_executor(None, kill_all, group)


async def _end(output: Output, group: Group) -> list[int]:
    """End the command and all its descendants: politely, then not."""
    send(group, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while members(group) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    survivors = await asyncio.get_running_loop().run_in_executor(None, kill_all, group)
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(output.ended), 5.0)
    return survivors


def tail_text(path: str, *, lines: int = 25, max_bytes: int = 16 * 1024) -> str:
    """The end of an output as text: at most so many lines and bytes, what is no UTF-8 replaced."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - max_bytes))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
