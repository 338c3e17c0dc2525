"""Talking with a program: both directions stay open, memory stays bounded, and nothing of it outlives the talk."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.disk import process
from perdure.sandbox.command import CommandMissing, CommandResult, CommandSpec
from perdure.sandbox.groups import Group
from perdure.sandbox.interactive import Pipes, run_interactive
from perdure.sandbox.lines import LineSplitter

Talk = Callable[[Pipes], Awaitable[None]]
ECHO = "import sys\nfor line in sys.stdin: print('got ' + line, end='', flush=True)\n"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    async def call(source: str, talk: Talk, **more: Any) -> CommandResult:
        timeout_ms = more.pop("timeout_ms", None)
        spec = CommandSpec([sys.executable, "-c", source], str(tmp_path), dict(os.environ), timeout_ms=timeout_ms)
        return await run_interactive(
            spec, talk, stdout_path=str(tmp_path / "out"), stderr_path=str(tmp_path / "err"), **more
        )

    return lambda source, talk, **more: asyncio.run(call(source, talk, **more))


def test_each_side_answers_the_other_and_all_of_it_is_kept(run: Any, tmp_path: Path) -> None:
    heard: list[bytes | None] = []

    async def talk(pipes: Pipes) -> None:
        for text in (b"one\n", "zwei ü\u2028\n".encode()):
            await pipes.send(text)
            heard.append(await pipes.line())

    result = run(ECHO, talk)

    assert heard == [b"got one", "got zwei ü\u2028".encode()]
    assert (tmp_path / "out").read_bytes() == "got one\ngot zwei ü\u2028\n".encode()
    assert (result.exit_code, result.timed_out) == (0, False)


def test_the_program_is_held_until_its_group_was_recorded(run: Any, tmp_path: Path) -> None:
    seen: list[bool] = []

    async def started(group: Group) -> None:
        await asyncio.sleep(0.1)
        seen.append((tmp_path / "ran").exists())

    async def talk(pipes: Pipes) -> None:
        assert await pipes.line() == b"ran"

    run("open('ran', 'w'); print('ran')", talk, on_started=started)

    assert seen == [False]


def test_an_end_of_the_program_is_an_end_of_its_lines(run: Any) -> None:
    heard: list[bytes | None] = []

    async def talk(pipes: Pipes) -> None:
        heard.extend([await pipes.line(), await pipes.line(), await pipes.line()])
        await pipes.send(b"nobody reads this\n")

    result = run("print('last'); raise SystemExit(4)", talk)

    assert heard == [b"last", None, None]
    assert result.exit_code == 4


def test_who_holds_the_output_after_the_end_is_not_waited_for(run: Any) -> None:
    async def talk(pipes: Pipes) -> None:
        pid = await pipes.line()
        assert await pipes.line() is None
        assert pid is not None
        pids.append(int(pid))

    pids: list[int] = []
    source = "import subprocess; print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid)"
    run(source, talk, timeout_ms=20_000)

    assert process.started_at(pids[0]) is None


def test_a_program_that_goes_on_after_the_talk_is_ended(run: Any) -> None:
    async def talk(pipes: Pipes) -> None:
        pids.append(int(await pipes.line() or b""))

    pids: list[int] = []
    run("import os, time; print(os.getpid(), flush=True); time.sleep(300)", talk)

    assert process.started_at(pids[0]) is None


def test_what_the_talk_raises_is_raised_once_the_program_is_ended(run: Any) -> None:
    async def talk(pipes: Pipes) -> None:
        pids.append(int(await pipes.line() or b""))
        raise ValueError("enough")

    pids: list[int] = []
    with pytest.raises(ValueError, match="enough"):
        run("import os, time; print(os.getpid(), flush=True); time.sleep(300)", talk)

    assert process.started_at(pids[0]) is None


def test_at_the_time_limit_the_talk_can_say_goodbye(run: Any, tmp_path: Path) -> None:
    async def talk(pipes: Pipes) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            pipes.write(b"goodbye\n")
            assert await pipes.line() == b"got goodbye"
            raise

    result = run(ECHO, talk, timeout_ms=1_000)

    assert result.timed_out
    assert (tmp_path / "out").read_bytes() == b"got goodbye\n"


def test_a_flood_waits_until_it_is_read(run: Any) -> None:
    """The program writes 64 MiB; what is not read yet stays in the pipe."""
    most, count = 0, 0

    async def talk(pipes: Pipes) -> None:
        nonlocal most, count
        while (line := await pipes.line()) is not None:
            count += 1
            most = max(most, pipes._talking.size + len(line))
            if count % 50 == 0:
                await asyncio.sleep(0)

    run("for _ in range(1024): print('x' * 65535)", talk)

    assert count == 1024
    assert most < 4 * 1024 * 1024


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def talk(pipes: Pipes) -> None:
        raise AssertionError

    spec = CommandSpec(["no-such-agent"], str(tmp_path), dict(os.environ))
    with pytest.raises(CommandMissing, match="no-such-agent"):
        asyncio.run(run_interactive(spec, talk, stdout_path=str(tmp_path / "o"), stderr_path=str(tmp_path / "e")))


@given(st.lists(st.binary(max_size=30)), st.integers(0, 20))
def test_lines_are_the_same_however_the_stream_is_cut(pieces: list[bytes], limit: int) -> None:
    splitter = LineSplitter(limit)
    found = [line for piece in pieces for line in splitter.feed(piece)]
    rest = splitter.rest()
    whole = b"".join(pieces).split(b"\n")

    assert found == [line for line in whole[:-1] if len(line) <= limit]
    assert rest == (whole[-1] if len(whole[-1]) <= limit else None)
    assert splitter.left_out == sum(len(line) > limit for line in whole)
