"""Commands: their output is kept, their time is limited, and nothing of them outlives them."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.disk import process
from perdure.sandbox.command import CommandMissing, CommandResult, CommandSpec, run_command, script_argv, tail_text
from perdure.sandbox.environment import MissingVariable, command_environment, resolve_variables
from perdure.sandbox.groups import Group, end_leftovers, members


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def call(script: str, **more: Any) -> CommandResult:
        stdin, timeout_ms = more.pop("stdin", None), more.pop("timeout_ms", None)
        spec = CommandSpec(script_argv(script, "shell"), str(tmp_path), dict(os.environ), stdin, timeout_ms)
        return asyncio.run(
            run_command(spec, stdout_path=str(tmp_path / "out"), stderr_path=str(tmp_path / "err"), **more)
        )

    return call


def gone(pid_file: Path) -> bool:
    return all(process.started_at(int(pid)) is None for pid in pid_file.read_text().split())


def test_a_command_says_how_it_ended_and_what_it_printed(run: Any, tmp_path: Path) -> None:
    result = run("echo out; echo err >&2; exit 3")

    assert (result.exit_code, result.timed_out, result.stdout_bytes, result.stderr_bytes) == (3, False, 4, 4)
    assert (tmp_path / "out").read_text() == "out\n"
    assert (tmp_path / "err").read_text() == "err\n"


def test_a_command_that_asks_gets_an_end_of_input(run: Any, tmp_path: Path) -> None:
    run("read x; echo got:$x")
    assert (tmp_path / "out").read_text() == "got:\n"


def test_a_prompt_goes_in_and_every_byte_comes_out(run: Any, tmp_path: Path) -> None:
    everything = bytes(range(256)) * 1000 + b"\r\nno end"
    run("cat", stdin=everything)
    assert (tmp_path / "out").read_bytes() == everything


@pytest.mark.parametrize(
    "script",
    [
        "echo $$ > pid; sleep 300 & echo $! >> pid; sleep 300",
        "echo $$ > pid; trap '' TERM; sleep 300",
        "echo $$ > pid; setsid sh -c 'echo $$ >> pid; sleep 300' & sleep 300",
        "echo $$ > pid; while true; do sleep 50 & sleep 0.005; done",
    ],
)
def test_a_time_limit_reaches_every_descendant(run: Any, tmp_path: Path, script: str) -> None:
    result = run(script, timeout_ms=400)

    assert result.timed_out
    assert result.exit_code is None
    assert result.survivors == []
    assert result.duration_ms < 10_000
    assert gone(tmp_path / "pid")


def test_what_a_command_leaves_in_the_background_ends_with_it(run: Any, tmp_path: Path) -> None:
    result = run("setsid sh -c 'echo $$ > pid; sleep 300' & while [ ! -s pid ]; do sleep 0.01; done; echo done")

    assert result.exit_code == 0
    assert gone(tmp_path / "pid")


def test_a_cancel_ends_the_command_before_it_returns(tmp_path: Path) -> None:
    async def cancelled() -> None:
        spec = CommandSpec(script_argv("echo $$ > pid; sleep 300", "shell"), str(tmp_path), dict(os.environ))
        call = run_command(spec, stdout_path=str(tmp_path / "out"), stderr_path=str(tmp_path / "err"))
        task = asyncio.create_task(call)
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert gone(tmp_path / "pid")


def test_nothing_runs_before_its_group_was_recorded(run: Any, tmp_path: Path) -> None:
    seen: list[bool] = []

    async def started(group: Group) -> None:
        await asyncio.sleep(0.1)
        seen.append((tmp_path / "ran").exists())
        assert group.leader.pid in members(group)

    run("touch ran", on_started=started)
    assert seen == [False]
    assert (tmp_path / "ran").exists()


def test_the_next_owner_can_end_what_a_dead_one_left(tmp_path: Path) -> None:
    code = f"""
import asyncio, os, msgspec
from perdure.sandbox.command import CommandSpec, run_command, script_argv
async def started(group):
    print(msgspec.json.encode(group).decode(), flush=True)
spec = CommandSpec(script_argv("echo $$ > pid; setsid sleep 300 & sleep 300", "shell"), {str(tmp_path)!r}, dict(os.environ))
asyncio.run(run_command(spec, stdout_path={str(tmp_path / "o")!r}, stderr_path={str(tmp_path / "e")!r}, on_started=started))
"""
    import subprocess

    import msgspec

    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    group = msgspec.json.decode(owner.stdout.readline(), type=Group)
    while not (tmp_path / "pid").exists() or len(members(group)) < 2:
        assert owner.poll() is None
    owner.kill()
    owner.communicate()
    assert members(group)
    assert end_leftovers(group) == []
    assert members(group) == []


def test_a_stranger_with_a_reused_pid_is_not_touched() -> None:
    me = process.current()
    stranger = Group(process.Identity(me.host, me.boot_id, me.pid, me.started + 5), "no such mark")
    assert end_leftovers(stranger) == []


def test_a_missing_program_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    async def call(argv: list[str], cwd: str) -> None:
        spec = CommandSpec(argv, cwd, dict(os.environ))
        await run_command(spec, stdout_path=str(tmp_path / "o"), stderr_path=str(tmp_path / "e"))

    with pytest.raises(CommandMissing, match="no-such-program"):
        asyncio.run(call(["no-such-program"], str(tmp_path)))
    with pytest.raises(CommandMissing, match="nowhere"):
        asyncio.run(call(["true"], str(tmp_path / "nowhere")))


def test_much_output_passes_without_filling_memory(tmp_path: Path) -> None:
    code = f"""
import asyncio, os
from perdure.base.masking import Masker
from perdure.sandbox.command import CommandSpec, run_command, script_argv
spec = CommandSpec(script_argv("head -c 200000000 /dev/zero", "shell"), {str(tmp_path)!r}, dict(os.environ))
new = Masker(["hush-hush-hush"]).stream
result = asyncio.run(run_command(spec, stdout_path={str(tmp_path / "o")!r}, stderr_path={str(tmp_path / "e")!r}, new_filter=new))
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(result.stdout_bytes, int(peak) // 1024)
"""
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    size, megabytes = done.stdout.split()
    assert int(size) == 200_000_000
    assert int(megabytes) < 100
    (tmp_path / "o").unlink()


def test_the_tail_of_an_output_is_text_whatever_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"\xff\xfe\n" * 100 + b"last\r\n")
    assert tail_text(str(path), lines=1) == "last"
    assert tail_text(str(tmp_path / "none")) == ""


def test_secrets_stay_out_of_the_environment_unless_named() -> None:
    environ = {"PATH": "/bin", "A_TOKEN": "t", "B_API_KEY": "k", "HOME": "/h"}
    kept = command_environment(environ, pass_through=["A_TOKEN"])
    assert {"PATH", "A_TOKEN", "HOME"} <= kept.keys()
    assert "B_API_KEY" not in kept
    assert kept["GIT_TERMINAL_PROMPT"] == "0"
    assert resolve_variables({"X": "${env.HOME}", "Y": "plain"}, environ) == {"X": "/h", "Y": "plain"}
    with pytest.raises(MissingVariable, match="NOPE"):
        resolve_variables({"X": "${env.NOPE}"}, environ)
