"""Coding-agent programs: what they print is understood, and nothing of how they end is taken for an answer."""

import asyncio
import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.backend import AgentResult, BackendError, command_for, find_backend
from perdure.agents.programs import telling, turn
from perdure.agents.programs.sessions import BEGUN, CONTINUE
from perdure.base.masking import MASK
from perdure.disk import process

from .conftest import Program, Turns
from .streams import (
    CODEX,
    SESSION,
    THREAD,
    claude_calls,
    claude_got,
    claude_init,
    claude_result,
    claude_says,
    codex_completed,
    codex_item,
    codex_started,
    printing,
)

CLAUDE = [
    claude_init(),
    claude_calls("Write", file_path="/elsewhere/a.txt", content="hello"),
    claude_got("File created successfully"),
    claude_says("Done."),
    claude_result(),
]
GOOD = {"claude-code": CLAUDE, "codex": CODEX}
BOTH = pytest.mark.parametrize("name", [*GOOD])


def ask(turns: Turns, name: str, argv: list[str], **changes: Any) -> AgentResult:
    return turns.ask(find_backend(name, argv, None), **changes)


def failure_of(turns: Turns, name: str, argv: list[str], **changes: Any) -> BackendError:
    with pytest.raises(BackendError) as raised:
        ask(turns, name, argv, **changes)
    return raised.value


def asked(turns: Turns) -> list[Any]:
    """Arguments, input and environment of each call of the program."""
    return [json.loads(line) for line in (turns.folder / "asked.jsonl").read_text().splitlines()]


def messages(turns: Turns) -> list[tuple[str, str]]:
    return [(each["kind"], each["text"]) for each in turns.op.of("agent.message")]


# What is understood


def test_the_answer_of_claude_code_is_its_result(turns: Turns, program: Program) -> None:
    result = ask(turns, "claude-code", program(printing(*CLAUDE)))

    assert (result.text, result.model) == ("Done.", "m-1")
    assert result.usage == {
        "input_tokens": 203,
        "output_tokens": 18,
        "cache_read_tokens": 14,
        "cache_write_tokens": 0,
        "cost": 0.001472,
    }
    assert result.conversation == {"session_id": SESSION}


def test_the_answer_of_codex_is_its_last_message(turns: Turns, program: Program) -> None:
    lines = [codex_item("agent_message", text="I begin."), *CODEX]
    result = ask(turns, "codex", program(printing(*lines)), model="m-2")

    assert (result.text, result.model) == ("Done.", "m-2")
    assert result.usage == {
        "input_tokens": 203,
        "output_tokens": 18,
        "cache_read_tokens": 14,
        "cache_write_tokens": 0,
        "reasoning_tokens": 4,
    }


def test_codex_counts_a_whole_thread_and_a_turn_gets_its_own_part(turns: Turns, program: Program) -> None:
    argv = program(printing(codex_started(), codex_item("agent_message", text="More."), codex_completed(306)))
    before = {"session_id": THREAD, "total": {"input_tokens": 203, "output_tokens": 18}}
    result = ask(turns, "codex", argv, conversation=before)

    assert result.usage is not None
    assert (result.usage["input_tokens"], result.usage["output_tokens"]) == (103, 0)
    assert isinstance(result.conversation, dict)
    assert result.conversation["total"]["input_tokens"] == 306  # type: ignore[index,call-overload]


def test_files_that_were_changed_are_named_as_the_working_folder_has_them(turns: Turns, program: Program) -> None:
    lines = [
        claude_calls("Write", 1, file_path=str(turns.work / "src/a.py")),
        claude_got("fine", 1),
        claude_calls("Edit", 2, file_path=str(turns.work / "refused.py")),
        claude_got("not allowed", 2, is_error=True),
    ]
    result = ask(turns, "claude-code", program(printing(claude_init(), *lines, claude_result())))

    assert result.files_touched == ["src/a.py"]


def test_files_that_codex_changed_are_named(turns: Turns, program: Program) -> None:
    change = codex_item("file_change", changes=[{"path": str(turns.work / "b.py"), "kind": "add"}], status="completed")
    result = ask(turns, "codex", program(printing(codex_started(), change, codex_completed())))

    assert result.files_touched == ["b.py"]


def test_messages_and_tools_are_told_while_the_turn_goes_on(turns: Turns, program: Program) -> None:
    ask(turns, "claude-code", program(printing(*CLAUDE)))

    assert messages(turns) == [("tool", "/elsewhere/a.txt"), ("text", "Done.")]


def test_commands_and_warnings_of_codex_are_told(turns: Turns, program: Program) -> None:
    ask(turns, "codex", program(printing(*CODEX)))

    assert messages(turns) == [
        ("warning", "Model metadata for `fake-1` not found."),
        ("tool", "/bin/bash -lc 'echo hi > b.txt'"),
        ("text", "Done."),
    ]


def test_a_talkative_program_does_not_flood_the_log(
    turns: Turns, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MAX_MESSAGES", 3)
    lines = [claude_says(f"{number} {'x' * 9_000}") for number in range(9)]
    ask(turns, "claude-code", program(printing(claude_init(), *lines, claude_result())))

    assert len(turns.op.of("agent.message")) == 4
    assert messages(turns)[3] == ("warning", "[more than 3 messages: the rest is not shown]")
    assert max(len(text) for _kind, text in messages(turns)) < 4_100


def test_what_a_sub_agent_says_is_not_the_answer(turns: Turns, program: Program) -> None:
    inner = claude_says("inner") | {"parent_tool_use_id": "toolu_9"}
    argv = program(printing(claude_init(), claude_says("outer"), inner, claude_result("")))

    assert ask(turns, "claude-code", argv).text == "outer"


def test_what_claude_code_was_not_allowed_is_told(turns: Turns, program: Program) -> None:
    denial = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": "rm -rf /"}}
    ask(turns, "claude-code", program(printing(claude_init(), claude_result(permission_denials=[denial]))))

    [refused] = turns.op.of("agent.permission.refused")
    assert (refused["tool"], refused["text"], refused["permission"]) == ("Bash", "rm -rf /", "read-write")


# What it is told


@BOTH
def test_the_prompt_comes_on_the_input_and_is_no_argument(turns: Turns, program: Program, name: str) -> None:
    ask(turns, name, program(printing(*GOOD[name])), prompt="--help; $(touch x) ü")

    [[arguments, prompt, _env]] = asked(turns)
    assert prompt == "--help; $(touch x) ü"
    assert "--help; $(touch x) ü" not in arguments


@BOTH
def test_the_turn_is_told_in_the_environment_and_an_outer_agent_is_not(
    turns: Turns, program: Program, name: str
) -> None:
    env = os.environ | {"CLAUDECODE": "1", "CODEX_SANDBOX": "seatbelt", "MINE": "kept"}
    ask(turns, name, program(printing(*GOOD[name])), env=env)

    [[_arguments, _prompt, seen]] = asked(turns)
    assert (seen["PERDURE_NODE_ID"], seen["PERDURE_RUN_ID"], seen["MINE"]) == ("fix", "RUN", "kept")
    assert "PERDURE_STEP_MARK" in seen
    assert not {"CLAUDECODE", "CODEX_SANDBOX"} & seen.keys()


@pytest.mark.parametrize(
    ("name", "level", "flags"),
    [
        ("claude-code", "", "--permission-mode acceptEdits"),
        ("claude-code", "read-only", "--permission-mode plan"),
        ("claude-code", "read-write", "--permission-mode acceptEdits"),
        ("claude-code", "full", "--permission-mode bypassPermissions"),
        ("claude-code", "everything", "--permission-mode plan"),
        ("codex", "", "-s workspace-write"),
        ("codex", "read-only", "-s read-only"),
        ("codex", "read-write", "-s workspace-write"),
        ("codex", "full", "-s danger-full-access"),
        ("codex", "everything", "-s read-only"),
    ],
)
def test_a_permission_becomes_the_programs_own_flag(
    turns: Turns, program: Program, name: str, level: str, flags: str
) -> None:
    ask(turns, name, program(printing(*GOOD[name])), permission=level, env=os.environ | {"IS_SANDBOX": "1"})

    assert f" {flags} " in f" {' '.join(asked(turns)[0][0])} "


@BOTH
def test_a_node_that_wants_one_answer_may_change_nothing(turns: Turns, program: Program, name: str) -> None:
    ask(turns, name, program(printing(*GOOD[name])), permission="full", is_prompt_only=True)

    assert {"plan", "read-only"} & set(asked(turns)[0][0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_is_told_why_it_gets_no_full_permission(turns: Turns) -> None:
    env = {name: value for name, value in os.environ.items() if name != "IS_SANDBOX"}
    error = failure_of(turns, "claude-code", ["false"], permission="full", env=env)

    assert "root" in error.message
    assert 'IS_SANDBOX = "1"' in error.message


@pytest.mark.parametrize(
    ("name", "flags"),
    [("claude-code", "--model m-9 --effort low"), ("codex", "-m m-9 -c model_reasoning_effort=low")],
)
def test_a_model_and_an_effort_are_asked_for(turns: Turns, program: Program, name: str, flags: str) -> None:
    ask(turns, name, program(printing(*GOOD[name])), model="m-9", reasoning_effort="low")

    assert flags in " ".join(asked(turns)[0][0])


# Conversations


def test_claude_code_gets_the_id_of_a_new_session_before_it_begins(turns: Turns, program: Program) -> None:
    with pytest.raises(BackendError):
        ask(turns, "claude-code", program(printing()))

    [opened] = turns.op.of("agent.session.opened")
    assert opened["way"] == "new"
    arguments = asked(turns)[0][0]
    assert arguments[arguments.index("--session-id") + 1] == opened["session_id"]
    assert str(uuid.UUID(opened["session_id"])) == opened["session_id"]


@pytest.mark.parametrize(("name", "flag"), [("claude-code", "--resume"), ("codex", "resume")])
def test_a_later_turn_goes_on_in_the_conversation_of_an_earlier_one(
    turns: Turns, program: Program, name: str, flag: str
) -> None:
    argv = program(printing(*GOOD[name]))
    first = ask(turns, name, argv)
    ask(turns, name, argv, prompt="And now?", conversation=first.conversation)

    [_first, [arguments, prompt, _env]] = asked(turns)
    assert arguments[arguments.index(flag) + 1] in (SESSION, THREAD)
    assert prompt == "And now?"
    assert turns.op.of("agent.session.opened")[-1]["way"] == "continued"


@pytest.mark.parametrize(("name", "flag"), [("claude-code", "--resume"), ("codex", "resume")])
def test_after_a_kill_the_same_session_goes_on_with_a_short_prompt(
    turns: Turns, program: Program, name: str, flag: str
) -> None:
    with pytest.raises(BackendError):
        ask(turns, name, program(printing(*GOOD[name][:-1], then="os.kill(os.getpid(), 9)")))
    turns.op.owner_dies()
    result = ask(turns, name, program(printing(*GOOD[name])))

    assert result.text == "Done."
    [arguments, prompt, _env] = asked(turns)[-1]
    assert arguments[arguments.index(flag) + 1] in (SESSION, THREAD)
    assert prompt == CONTINUE
    assert turns.op.of("agent.session.opened")[0]["way"] == "recovered"


@BOTH
def test_a_session_in_which_nothing_was_said_is_told_its_task_again(turns: Turns, program: Program, name: str) -> None:
    """The program may have died before it wrote the prompt down."""
    with pytest.raises(BackendError):
        ask(turns, name, program(printing(*GOOD[name][:1])))
    turns.op.owner_dies()
    ask(turns, name, program(printing(*GOOD[name])))

    prompt = asked(turns)[-1][1]
    assert prompt.startswith(CONTINUE)
    assert prompt.endswith("\n\nMend it.")


UNKNOWN = {
    "claude-code": (
        json.dumps(
            claude_result(
                subtype="error_during_execution", is_error=True, errors=["No conversation found with session ID: x"]
            )
            | {"result": None}
        ),
        "No conversation found with session ID: x",
    ),
    "codex": ("", "Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)"),
}


@BOTH
def test_a_session_that_the_program_does_not_know_begins_anew_and_says_so(
    turns: Turns, program: Program, name: str
) -> None:
    printed, errors = UNKNOWN[name]
    good = b"".join(json.dumps(each).encode() + b"\n" for each in GOOD[name])
    source = f"""
if "resume" in " ".join(sys.argv):
    print({printed!r}); print({errors!r}, file=sys.stderr); sys.exit(1)
sys.stdout.buffer.write({good!r})
"""
    result = ask(turns, name, program(printing(then=source)), conversation={"session_id": "x"})

    assert result.text == "Done."
    [lost] = turns.op.of("agent.session.lost")
    assert lost["session_id"] == "x"
    assert [prompt for _arguments, prompt, _env in asked(turns)] == ["Mend it.", "Mend it."]
    assert turns.op.of("agent.session.opened")[-1]["way"] == "new"


@BOTH
def test_work_that_was_begun_in_a_lost_session_is_said_to_be_begun(turns: Turns, program: Program, name: str) -> None:
    printed, errors = UNKNOWN[name]
    good = b"".join(json.dumps(each).encode() + b"\n" for each in GOOD[name])
    source = f"""
if "resume" in " ".join(sys.argv):
    print({printed!r}); print({errors!r}, file=sys.stderr); sys.exit(1)
sys.stdout.buffer.write({good!r})
"""
    turns.op.earlier = [
        ("agent.session.opened", {"session_id": "x"}),
        ("agent.message", {"session_id": "x", "kind": "tool"}),
    ]
    ask(turns, name, program(printing(then=source)))

    assert [prompt for _arguments, prompt, _env in asked(turns)] == [CONTINUE, f"{BEGUN}\n\nMend it."]


@BOTH
def test_a_session_that_was_lost_once_is_not_asked_for_again(turns: Turns, program: Program, name: str) -> None:
    turns.op.earlier = [
        ("agent.session.opened", {"session_id": "x"}),
        ("agent.session.lost", {"session_id": "x"}),
    ]
    ask(turns, name, program(printing(*GOOD[name])), conversation={"session_id": "x"})

    assert "x" not in asked(turns)[0][0]


@BOTH
@pytest.mark.parametrize("strange", ["text", 5, [1], {"session_id": 7}, {"messages": []}])
def test_the_conversation_of_another_backend_is_not_taken(
    turns: Turns, program: Program, name: str, strange: Any
) -> None:
    assert ask(turns, name, program(printing(*GOOD[name])), conversation=strange).text == "Done."


# How it ends


@BOTH
def test_a_torn_last_line_is_no_answer(turns: Turns, program: Program, name: str) -> None:
    torn = json.dumps(GOOD[name][-1]).encode()[:-9]
    error = failure_of(turns, name, program(printing(*GOOD[name][:-1], torn)))

    assert "ended without saying that its turn is over" in error.message
    assert error.partial == "Done."


@BOTH
def test_a_last_line_without_its_newline_counts(turns: Turns, program: Program, name: str) -> None:
    whole = json.dumps(GOOD[name][-1]).encode()

    assert ask(turns, name, program(printing(*GOOD[name][:-1], whole))).text == "Done."


@BOTH
@pytest.mark.parametrize(
    "strange",
    [
        "Warning: something else",
        '{"type": "of-tomorrow", "item": 5, "message": []}',
        '{"type": ["list"]}',
        '{"type": "assistant", "message": {"content": [5, {"type": "text", "text": 7}, {"type": "tool_use", "input": "x"}]}}',
        '{"type": "assistant", "message": "text"}',
        '{"type": "item.completed", "item": {"type": "agent_message"}}',
        '{"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": 5}, 6], "status": "failed"}}',
        '{"type": "system", "subtype": "init", "session_id": 5}',
        '{"type": "thread.started"}',
        '{"a": ' + "[" * 50_000,
        "{}",
        "[1, 2]",
        b"{\xff\xfe not text}\n",
        b"\x00\x01\r\n",
        b'{"type": "system", "subtype": "note", "text": "\xed\xa0\x80 \xf0\x9f"}\n',
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_line_that_nobody_knows_changes_nothing(
    turns: Turns, program: Program, name: str, strange: str | bytes
) -> None:
    lines: list[Any] = [GOOD[name][0], strange, *GOOD[name][1:]]

    assert ask(turns, name, program(printing(*lines))).text == "Done."


@BOTH
def test_lines_are_cut_at_newlines_only(turns: Turns, program: Program, name: str) -> None:
    text = "a\u2028b\u0085c\x0bd\x0ce"
    said = {"claude-code": claude_result(text), "codex": codex_item("agent_message", text=text)}[name]
    lines: list[Any] = [
        GOOD[name][0],
        json.dumps(said, ensure_ascii=False),
        *([codex_completed()] if name == "codex" else []),
    ]

    assert ask(turns, name, program(printing(*lines))).text == text


@BOTH
def test_a_huge_line_costs_that_line_only(
    turns: Turns, program: Program, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "MAX_LINE", 10_000)
    lines = [GOOD[name][0], claude_says("x" * 3_000_000), *GOOD[name][1:]]

    assert ask(turns, name, program(printing(*lines))).text == "Done."
    assert any("were not read" in text for _kind, text in messages(turns))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (claude_result("Credit balance is too low", is_error=True), "Credit balance is too low"),
        (claude_result(subtype="error_max_turns", is_error=True) | {"result": None}, "error_max_turns"),
        (claude_result(is_error=None), "Done."),
    ],
)
def test_a_result_that_is_an_error_is_a_failure(turns: Turns, program: Program, line: Any, message: str) -> None:
    error = failure_of(turns, "claude-code", program(printing(claude_init(), line)))

    assert error.message == f"Claude Code failed: {message}"
    assert not error.retryable


def test_a_providers_bad_moment_may_be_tried_again(turns: Turns, program: Program) -> None:
    line = claude_result("API Error: Overloaded", is_error=True, api_error_status=529)
    error = failure_of(turns, "claude-code", program(printing(claude_init(), line, then="sys.exit(1)")))

    assert (error.retryable, error.failure_class) == (True, "transient_infra")


def test_a_failed_turn_of_codex_is_a_failure(turns: Turns, program: Program) -> None:
    failed = {"type": "turn.failed", "error": {"message": "unexpected status 400"}}
    error = failure_of(turns, "codex", program(printing(codex_started(), failed, then="sys.exit(1)")))

    assert error.message == "Codex failed: unexpected status 400"


def test_an_error_that_codex_got_over_is_no_failure(turns: Turns, program: Program) -> None:
    lines = [codex_started(), {"type": "error", "message": "Reconnecting... 1/5"}, *CODEX[1:]]

    assert ask(turns, "codex", program(printing(*lines))).text == "Done."


@BOTH
def test_a_program_that_only_complains_has_failed_with_its_words(turns: Turns, program: Program, name: str) -> None:
    error = failure_of(turns, name, program("import sys; sys.exit('Not logged in')"))

    assert "ended with exit code 1: Not logged in" in error.message
    assert error.report is not None
    assert error.report.stderr == "Not logged in\n"


@BOTH
def test_a_silent_program_gave_no_answer(turns: Turns, name: str) -> None:
    assert "without saying that its turn is over" in failure_of(turns, name, ["true"]).message


@BOTH
def test_an_exit_code_other_than_zero_is_a_failure_whatever_was_printed(
    turns: Turns, program: Program, name: str
) -> None:
    error = failure_of(turns, name, program(printing(*GOOD[name], then="sys.exit(3)")))

    assert "ended with exit code 3" in error.message
    assert error.partial == "Done."


@BOTH
def test_a_time_limit_ends_the_program_and_all_that_it_started(turns: Turns, program: Program, name: str) -> None:
    then = """
import subprocess
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
open("pid", "w").write(f"{child.pid} {os.getpid()}")
time.sleep(300)
"""
    error = failure_of(turns, name, program(printing(*GOOD[name][:-1], then=then)), timeout_ms=1_500)

    assert (error.retryable, error.partial) == (True, "Done.")
    assert [process.started_at(int(pid)) for pid in (turns.work / "pid").read_text().split()] == [None, None]


@BOTH
def test_what_a_program_leaves_running_ends_with_it(turns: Turns, program: Program, name: str) -> None:
    then = """
import subprocess
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
open("pid", "w").write(str(child.pid))
"""
    assert ask(turns, name, program(printing(*GOOD[name], then=then))).text == "Done."
    assert process.started_at(int((turns.work / "pid").read_text())) is None


@BOTH
def test_a_cancelled_turn_ends_the_program(turns: Turns, program: Program, name: str) -> None:
    ready = turns.work / "pid"
    os.mkfifo(ready)
    argv = program(printing(GOOD[name][0], then='open("pid", "w").write(str(os.getpid())); time.sleep(300)'))

    async def cancelled() -> int:
        task = asyncio.create_task(find_backend(name, argv, None).run(turns.request(), turns.context()))
        pid = await asyncio.get_running_loop().run_in_executor(None, ready.read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int(pid)

    assert process.started_at(asyncio.run(cancelled())) is None


@pytest.mark.parametrize(
    ("name", "package"), [("claude-code", "@anthropic-ai/claude-code"), ("codex", "@openai/codex")]
)
def test_a_program_that_is_not_installed_is_named_with_the_way_to_get_it(
    turns: Turns, name: str, package: str, tmp_path: Path
) -> None:
    error = failure_of(turns, name, [], env={"PATH": str(tmp_path)})

    assert f"There is no program {name.removesuffix('-code')}." in error.message
    assert f"npm install -g {package}" in error.message


@BOTH
def test_a_secret_is_masked_in_the_answer_and_in_what_is_kept(turns: Turns, program: Program, name: str) -> None:
    turns.secrets = ["hunter2-and-more"]
    lines = json.loads(json.dumps(GOOD[name]).replace("Done.", "It is hunter2-and-more."))
    result = ask(turns, name, program(printing(*lines)))

    assert result.text == f"It is {MASK.decode()}."
    assert result.report is not None
    assert "hunter2" not in str(result.report.stdout)


@BOTH
def test_nothing_is_left_beside_the_run(turns: Turns, program: Program, name: str) -> None:
    ask(turns, name, program(printing(*GOOD[name])))

    assert list(turns.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "chosen", "is_given"),
    [
        ("codex", "codex", True),
        ("command", None, True),
        ("acp", None, True),
        ("acp", "acp", True),
        ("codex", None, False),
        ("claude-code", "command", False),
        ("command", "codex", False),
    ],
)
def test_a_command_is_given_to_the_backend_that_it_is_meant_for(
    name: str, chosen: str | None, *, is_given: bool
) -> None:
    """A node with a backend of its own does not run the program of the other nodes."""
    assert bool(command_for(name, chosen, ["python3", "agent.py"])) is is_given


def test_what_claude_code_says_itself_is_said_by_no_model(turns: Turns, program: Program) -> None:
    own = claude_says("API Error: 529")
    own["message"]["model"] = "<synthetic>"

    assert ask(turns, "claude-code", program(printing(claude_init(), own, claude_result()))).model is None
