"""The command backend: any program can be the agent, and nothing of how it ends is lost or taken for something else."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from perdure.agents import command
from perdure.agents.backend import BackendError
from perdure.agents.command import CommandBackend
from perdure.base.masking import MASK
from perdure.disk import process

from .conftest import Program, Turns


def failure_of(turns: Turns, argv: list[str], **changes: object) -> BackendError:
    with pytest.raises(BackendError) as raised:
        turns.ask(CommandBackend(argv), **changes)
    return raised.value


def test_the_prompt_comes_on_standard_input_and_the_answer_is_what_is_printed(turns: Turns) -> None:
    assert turns.ask(CommandBackend(["cat"]), prompt="Für dich: ↑ it.\n").text == "Für dich: ↑ it."


def test_a_prompt_file_stands_in_for_the_input(turns: Turns, program: Program) -> None:
    source = "import sys; print(open(sys.argv[1]).read(), repr(sys.stdin.read()), sys.argv[1].startswith('/'))"
    argv = [*program(source), "{prompt_file}"]

    assert turns.ask(CommandBackend(argv)).text == "Mend it. '' True"


def test_a_prompt_is_readable_by_its_owner_alone_and_gone_afterwards(turns: Turns, program: Program) -> None:
    source = "import os, stat; print(oct(stat.S_IMODE(os.stat(os.environ['PERDURE_PROMPT_FILE']).st_mode)))"

    assert turns.ask(CommandBackend(program(source))).text == "0o600"
    assert list(turns.scratch.iterdir()) == []


def test_the_program_works_in_the_working_folder(turns: Turns) -> None:
    turns.ask(CommandBackend(["/bin/sh", "-c", "echo real > made.txt"]))

    assert (turns.work / "made.txt").read_text() == "real\n"


ENVIRONMENT = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('PERDURE_')}))"


def test_the_program_is_told_of_its_turn(turns: Turns, program: Program) -> None:
    asked = {"model": "m-1", "provider": "p", "reasoning_effort": "high", "thread_id": "t", "max_tokens": 500}
    told = json.loads(turns.ask(CommandBackend(program(ENVIRONMENT)), visit=2, attempt=3, **asked).text)
    told = {name.removeprefix("PERDURE_").lower(): value for name, value in told.items()}

    assert {
        "run_id": "RUN",
        "node_id": "fix",
        "visit": "2",
        "attempt": "3",
        "fidelity": "compact",
    }.items() <= told.items()
    assert {name: str(value) for name, value in asked.items()}.items() <= told.items()


def test_what_nobody_asked_for_is_not_set(turns: Turns, program: Program) -> None:
    """Neither as an empty text, nor as a run around this one has it."""
    env = os.environ | {"PERDURE_MODEL": "of-an-outer-run", "PERDURE_PROMPT_ONLY": "1"}
    told = json.loads(turns.ask(CommandBackend(program(ENVIRONMENT)), env=env).text)

    assert told.keys() & {
        "PERDURE_MODEL", "PERDURE_PROVIDER", "PERDURE_REASONING_EFFORT", "PERDURE_MAX_TOKENS", "PERDURE_THREAD_ID",
        "PERDURE_PROMPT_ONLY",
    } == set()  # fmt: skip


def test_no_part_of_a_prompt_is_code_for_a_shell(turns: Turns) -> None:
    prompt = "$(touch x); `touch x`; '\"; touch x; {prompt_file}"

    assert turns.ask(CommandBackend(["cat"]), prompt=prompt).text == prompt
    assert list(turns.work.iterdir()) == []


def test_a_program_that_exits_with_an_error_has_failed_whatever_it_made(turns: Turns) -> None:
    argv = [
        "/bin/sh",
        "-c",
        'echo done > out.txt; echo \'{"outcome": "succeeded"}\'; echo no quota for you >&2; exit 3',
    ]
    error = failure_of(turns, argv)

    assert error.message == "/bin/sh ended with exit code 3: no quota for you"
    assert error.partial == '{"outcome": "succeeded"}'
    assert error.report is not None
    assert (error.report.exit_code, error.report.timed_out, error.report.stderr) == (3, False, "no quota for you\n")
    assert not error.retryable


def test_a_program_that_failed_in_silence_is_said_to_have_said_nothing(turns: Turns) -> None:
    assert failure_of(turns, ["false"]).message == "false ended with exit code 1: it said nothing."


def test_a_program_that_a_signal_ended_is_said_to_have_been_ended_by_it(turns: Turns) -> None:
    assert "was ended by signal 9" in failure_of(turns, ["/bin/sh", "-c", "kill -9 $$"]).message


def test_a_program_can_ask_to_be_tried_again(turns: Turns) -> None:
    error = failure_of(turns, ["/bin/sh", "-c", "echo busy >&2; exit 75"])

    assert (error.retryable, error.failure_class) == (True, "transient_infra")


def test_a_time_limit_ends_the_whole_group_and_may_be_tried_again(turns: Turns) -> None:
    argv = ["/bin/sh", "-c", "echo half an answer; sleep 300 & echo $! > pid; echo $$ >> pid; wait"]
    error = failure_of(turns, argv, timeout_ms=700)

    assert error.retryable
    assert error.partial == "half an answer"
    assert error.report is not None
    assert error.report.exit_code is None
    assert [process.started_at(int(pid)) for pid in (turns.work / "pid").read_text().split()] == [None, None]


def test_a_cancelled_turn_ends_the_whole_group(turns: Turns) -> None:
    ready = turns.work / "pid"
    os.mkfifo(ready)
    argv = ["/bin/sh", "-c", 'sleep 300 & echo "$! $$" > pid; wait']

    async def cancelled() -> list[int]:
        task = asyncio.create_task(CommandBackend(argv).run(turns.request(), turns.context()))
        pids = await asyncio.get_running_loop().run_in_executor(None, ready.read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [int(pid) for pid in pids.split()]

    assert [process.started_at(pid) for pid in asyncio.run(cancelled())] == [None, None]


def test_the_group_is_told_before_the_program_does_anything(turns: Turns) -> None:
    """So the next owner of a run can end what a dead one left."""
    seen: list[bool] = []
    context = turns.context()

    async def on_started(group: object) -> None:
        await asyncio.sleep(0.1)
        seen.append((turns.work / "made").exists())

    import msgspec

    context = msgspec.structs.replace(context, on_started=on_started)
    asyncio.run(CommandBackend(["touch", "made"]).run(turns.request(), context))

    assert seen == [False]
    assert (turns.work / "made").exists()


def test_a_program_that_reads_no_input_is_no_failure(turns: Turns) -> None:
    assert turns.ask(CommandBackend(["echo", "fine"]), prompt="x" * 3_000_000).text == "fine"


def test_a_program_that_is_not_there_is_named(turns: Turns) -> None:
    error = failure_of(turns, ["no-such-agent", "--model", "x"])

    assert "no-such-agent" in error.message
    assert not error.retryable


def test_bytes_that_are_no_text_do_not_hide_the_answer(turns: Turns, program: Program) -> None:
    source = "import sys; sys.stdout.buffer.write(bytes(range(1, 256)) + b'\\r\\nthe end\\n')"

    assert turns.ask(CommandBackend(program(source))).text.endswith("\ufffd\ufffd\r\nthe end")


def test_line_ends_of_an_answer_stay_as_they_were_printed(turns: Turns) -> None:
    assert turns.ask(CommandBackend(["cat"]), prompt="a\r\nb\x0bc\u2028d").text == "a\r\nb\x0bc\u2028d"


def test_of_a_very_long_answer_the_end_is_read_and_the_whole_kept(
    turns: Turns, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MAX_ANSWER", 1000)
    result = turns.ask(CommandBackend(program("print('x' * 2000 + 'end')")))

    assert result.text.startswith("[... 1004 bytes left out; stdout.log has all of it ...]")
    assert result.text.endswith("xxend")
    assert result.report is not None
    assert result.report.stdout == "x" * 2000 + "end\n"


def test_a_secret_is_masked_in_the_answer_in_the_errors_and_in_the_failure(turns: Turns) -> None:
    turns.secrets = ["hunter2-and-more"]
    error = failure_of(
        turns, ["/bin/sh", "-c", "cat; echo it is hunter2-and-more >&2; exit 1"], prompt="hunter2-and-more"
    )

    assert error.report is not None
    assert f"it is {MASK.decode()}" in error.message
    assert (error.partial, error.report.stderr) == (MASK.decode(), f"it is {MASK.decode()}\n")


def test_a_full_disk_is_not_the_agents_failure(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.disk.atomic import DiskFull

    def full(path: str, content: bytes) -> None:
        raise DiskFull(f"No space is left to write {path}.")

    monkeypatch.setattr(command, "write_new", full)
    with pytest.raises(DiskFull):
        turns.ask(CommandBackend(["cat"]))


def test_a_folder_that_is_gone_is_named(turns: Turns, tmp_path: Path) -> None:
    assert str(tmp_path / "gone") in failure_of(turns, ["cat"], cwd=str(tmp_path / "gone")).message
