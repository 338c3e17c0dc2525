"""Agents of the Agent Client Protocol: a real one, made with the official library, is spoken to as the protocol says."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from perdure.agents.backend import AgentResult, BackendError, find_backend
from perdure.agents.programs.acp import client
from perdure.agents.programs.acp.backend import acp
from perdure.agents.programs.acp.rpc import RpcError
from perdure.agents.programs.sessions import CONTINUE
from perdure.agents.programs.telling import Telling
from perdure.agents.programs.turn import Level
from perdure.base.errors import Refused
from perdure.disk import process

from .conftest import Program, Turns

AGENT = [sys.executable, str(Path(__file__).with_name("acp_agent.py"))]


@pytest.fixture
def home(turns: Turns) -> Path:
    path = turns.folder / "home"
    path.mkdir()
    return path


def env_of(turns: Turns, flags: str = "") -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "ACP_HOME": str(turns.folder / "home"), "ACP_FLAGS": flags}


def ask(turns: Turns, prompt: str, flags: str = "", **changes: Any) -> AgentResult:
    return turns.ask(find_backend("acp", AGENT, None), prompt=prompt, env=env_of(turns, flags), **changes)


def failure_of(turns: Turns, prompt: str, flags: str = "", **changes: Any) -> BackendError:
    with pytest.raises(BackendError) as raised:
        ask(turns, prompt, flags, **changes)
    return raised.value


def asked(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "asked.jsonl").read_text().splitlines()]


def test_a_turn_is_a_session_a_prompt_and_the_last_message(turns: Turns, home: Path) -> None:
    result = ask(turns, "work src/a.py")

    assert result.text == "Done."
    assert result.usage == {"input_tokens": 20, "output_tokens": 10, "reasoning_tokens": 4}
    assert result.files_touched == ["src/a.py"]
    assert result.conversation == {"session_id": "session-1"}
    hello, new, said = asked(home)
    assert (hello["initialize"], hello["name"]) == (1, "perdure")
    assert new["cwd"] == str(turns.work)
    assert said == {"prompt": "work src/a.py", "session": "session-1"}


def test_whole_messages_and_tools_are_told(turns: Turns, home: Path) -> None:
    ask(turns, "work a.py")

    told = [(each["kind"], each["text"]) for each in turns.op.of("agent.message")]
    assert told == [("text", "I begin."), ("tool", "Edit it"), ("text", "Done.")]
    assert turns.op.of("agent.session.opened")[0]["session_id"] == "session-1"


def test_a_later_turn_loads_the_session_and_its_history_is_no_news(turns: Turns, home: Path) -> None:
    first = ask(turns, "echo")
    turns.op.owner_dies()
    turns.op.earlier = []
    result = ask(turns, "again", conversation=first.conversation)

    assert result.text == "You said it."
    assert {"load": "session-1"} in asked(home)
    assert asked(home)[-1] == {"prompt": "again", "session": "session-1"}
    assert [each["text"] for each in turns.op.of("agent.message")] == ["You said it."]


def test_after_a_kill_the_same_session_goes_on_with_a_short_prompt(turns: Turns, home: Path) -> None:
    failure_of(turns, "die")
    turns.op.owner_dies()
    ask(turns, "die")

    assert asked(home)[-1] == {"prompt": CONTINUE, "session": "session-1"}
    assert turns.op.of("agent.session.opened")[0]["way"] == "recovered"


@pytest.mark.parametrize("flags", ["", "forgetful"])
def test_a_session_that_cannot_be_loaded_begins_anew_and_says_so(turns: Turns, home: Path, flags: str) -> None:
    result = ask(turns, "echo", flags, conversation={"session_id": "of-long-ago"})

    assert result.conversation == {"session_id": "session-1"}
    assert turns.op.of("agent.session.lost")[0]["session_id"] == "of-long-ago"
    assert asked(home)[-1] == {"prompt": "echo", "session": "session-1"}


@pytest.mark.parametrize(
    ("level", "wanted", "is_allowed"),
    [
        ("read-only", "read", True),
        ("read-only", "edit a.py", False),
        ("read-only", "execute", False),
        ("read-write", "search", True),
        ("read-write", "edit a.py", True),
        ("read-write", "edit", False),
        ("read-write", "edit ../a.py", False),
        ("read-write", "delete /etc/passwd", False),
        ("read-write", "execute", False),
        ("read-write", "fetch", False),
        ("full", "execute", True),
        ("full", "edit /elsewhere/a.py", True),
        ("full", "other", True),
    ],
)
def test_a_permission_is_by_level_and_changes_stay_in_the_working_folder(
    tmp_path: Path, level: str, wanted: str, *, is_allowed: bool
) -> None:
    kind, _, path = wanted.partition(" ")
    call = {"kind": kind} | ({"locations": [{"path": path}]} if path else {})

    assert client.is_allowed(cast("Level", level), call, str(tmp_path)) is is_allowed


@pytest.mark.parametrize(
    "call", [{}, {"kind": "of-tomorrow"}, {"kind": 5}, {"kind": "edit", "locations": "a.py"}, {"kind": None}]
)
def test_a_call_that_is_not_understood_is_allowed_to_nobody_but_the_full_level(tmp_path: Path, call: Any) -> None:
    assert not client.is_allowed("read-write", call, str(tmp_path))


def test_a_change_counts_as_one_even_when_only_its_difference_names_the_file(tmp_path: Path) -> None:
    call = {"kind": "edit", "content": [{"type": "diff", "path": "/etc/passwd"}]}

    assert not client.is_allowed("read-write", call, str(tmp_path))


def test_what_is_allowed_is_allowed_once_and_never_for_good(turns: Turns, home: Path) -> None:
    result = ask(turns, "permission edit a.py")

    assert json.loads(result.text) == {"outcome": "selected", "optionId": "yes"}
    assert turns.op.of("agent.permission.refused") == []


def test_what_is_not_allowed_is_refused_and_told(turns: Turns, home: Path) -> None:
    result = ask(turns, "permission execute")

    assert json.loads(result.text) == {"outcome": "selected", "optionId": "no"}
    [refused] = turns.op.of("agent.permission.refused")
    assert (refused["tool"], refused["text"], refused["permission"]) == ("execute", "Do execute", "read-write")


def test_files_of_the_working_folder_are_offered(turns: Turns, home: Path) -> None:
    (turns.work / "a.txt").write_text("one\ntwo\nthree\n")

    assert ask(turns, f"read {turns.work}/a.txt").text == "read: two"
    result = ask(turns, f"write {turns.work}/new/b.txt some text")
    assert (turns.work / "new" / "b.txt").read_text() == "some text"
    assert result.files_touched == ["new/b.txt"]


@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file"])
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link/secret", ".", "", "a\0b", None, 5])
def test_no_other_file_is_read_or_written_whatever_links_say(turns: Turns, method: str, path: Any) -> None:
    (turns.folder / "secret").write_text("a\nhunter2\n")
    (turns.work / "link").symlink_to(turns.folder)
    mine = client.Client(str(turns.work), "full", Telling(turns.request(), turns.context(), "acp"))

    with pytest.raises(RpcError):
        mine.answer(method, {"path": path, "content": "gone"})
    assert (turns.folder / "secret").read_text() == "a\nhunter2\n"


def test_an_agent_that_may_only_read_is_offered_no_writing(turns: Turns, home: Path) -> None:
    assert ask(turns, f"write {turns.work}/b.txt text", permission="read-only").text.startswith("refused")
    assert asked(home)[0]["capabilities"]["fs"]["writeTextFile"] is False
    assert not (turns.work / "b.txt").exists()


def test_what_is_not_offered_is_refused_by_name(turns: Turns) -> None:
    mine = client.Client(str(turns.work), "full", Telling(turns.request(), turns.context(), "acp"))

    with pytest.raises(RpcError, match="terminal/create is not offered"):
        mine.answer("terminal/create", {})


def test_a_turn_that_was_cut_is_a_failure(turns: Turns, home: Path) -> None:
    error = failure_of(turns, "stop max_tokens")

    assert "reached its limit of tokens" in error.message
    assert (error.failure_class, error.partial) == ("budget_exhausted", "So far.")


def test_an_agent_that_dies_is_a_failure_with_its_last_words(turns: Turns, home: Path) -> None:
    error = failure_of(turns, "die")

    assert "It ended with exit code 7. out of luck" in error.message
    assert error.partial == "I was at it."


def test_an_agent_that_is_not_logged_in_says_how(turns: Turns, home: Path) -> None:
    assert (
        "Log in to the agent first, outside of Perdure, by: agent login." in failure_of(turns, "echo", "locked").message
    )


def test_an_agent_of_another_version_is_refused(turns: Turns, home: Path) -> None:
    assert "It speaks version 99" in failure_of(turns, "echo", "future").message


def test_a_model_that_cannot_be_chosen_is_said_to_be_so(turns: Turns, home: Path) -> None:
    ask(turns, "echo", model="m-1")

    assert turns.op.of("agent.message")[0]["kind"] == "warning"


SILENT = """
import json, os, sys
print("a line that is no message")
for line in sys.stdin:
    message = json.loads(line)
    open("heard", "a").write(message["method"] + "\\n")
    results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    if message["method"] in results:
        print(json.dumps({"id": message["id"], "result": results[message["method"]]}), flush=True)
"""


def test_a_time_limit_cancels_the_turn_and_ends_the_agent(turns: Turns, program: Program) -> None:
    with pytest.raises(BackendError, match="ran longer than") as raised:
        turns.ask(find_backend("acp", program(SILENT), None), timeout_ms=2_000)

    assert raised.value.retryable
    assert (turns.work / "heard").read_text().split() == [
        "initialize",
        "session/new",
        "session/prompt",
        "session/cancel",
    ]
    assert [process.started_at(group.leader.pid) for group in turns.started] == [None]


def test_a_cancelled_turn_is_cancelled_at_the_agent_which_is_ended(turns: Turns, home: Path) -> None:
    os.mkfifo(home / "ready")

    async def cancelled() -> int:
        backend = find_backend("acp", AGENT, None)
        request = turns.request(prompt="hang", env=env_of(turns))
        task = asyncio.create_task(backend.run(request, turns.context()))
        pid = await asyncio.get_running_loop().run_in_executor(None, (home / "ready").read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int(pid)

    assert process.started_at(asyncio.run(cancelled())) is None
    assert asked(home)[-1] == {"cancel": "session-1"}


@pytest.mark.parametrize(
    "source",
    [
        "print('hello')",
        'print(\'{"jsonrpc": "2.0", "id": 1, "result": 5}\')',
        'print(\'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}\')',
        "print('{\"id\": \"1\", \"result\": {}}'); print('[1]'); print('{\"method\": 5}'); print('\\xff{')",
    ],
)
def test_a_program_that_does_not_speak_the_protocol_gave_no_answer(turns: Turns, program: Program, source: str) -> None:
    with pytest.raises(BackendError, match="gave no answer"):
        turns.ask(find_backend("acp", program(source), None), timeout_ms=5_000)


def test_the_backend_needs_a_program() -> None:
    with pytest.raises(Refused, match="--command"):
        find_backend("acp", [], None)


@pytest.mark.parametrize(
    ("command", "whole"),
    [(["gemini"], ["gemini", "--acp"]), (["/opt/goose"], ["/opt/goose", "acp"]), (["gemini", "-x"], ["gemini", "-x"])],
)
def test_well_known_agents_need_only_their_name(command: list[str], whole: list[str]) -> None:
    assert acp(command)._command == whole
