"""A tool call is a step: recorded once, allowed before it runs, and after a kill either known to be done or said to be in doubt."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.tools.approvals import ApprovalStore
from perdure.agents.tools.authorizing import Permissions
from perdure.agents.tools.files import EDIT, READ, WRITE
from perdure.agents.tools.grants import GrantStore
from perdure.agents.tools.mcp import McpServer, McpServers
from perdure.agents.tools.operation import INTERRUPTED, _contexts, call_tool, open_context
from perdure.agents.tools.permissions import Policy
from perdure.agents.tools.shell import READ_OUTPUT, SHELL
from perdure.agents.tools.tool import Toolbox, ToolContext
from perdure.base.jsonvalue import JSON
from perdure.base.masking import Masker
from perdure.disk import process
from perdure.disk.blobs import Blobs
from perdure.kernel import definition as definitions
from perdure.kernel.context import OperationContext, RunContext
from perdure.kernel.ending import RunResult
from perdure.kernel.engine import Engine
from perdure.kernel.events import Event, event_of
from perdure.kernel.interviewer import Interviewer
from perdure.kernel.operation import operation
from perdure.kernel.outcome import Outcome
from perdure.kernel.question import Answer
from perdure.llm.protocol import ToolCall, ToolResult
from perdure.store.sqlite import SqliteStore

FULL = Policy("full")
SECRET = "hush-hush-hush"


class Agent:
    """A run whose one step calls tools in order; owners come and go."""

    kind = "tools"
    name = "tools"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.root.mkdir()
        blobs = folder / "blobs"
        blobs.mkdir()
        self.store = SqliteStore.open(str(folder / "state.sqlite"), durability="normal")
        self.blobs = Blobs(str(blobs))
        self.workspace = folder / "workspace"
        self.policy = FULL
        self.servers: dict[str, McpServer] = {}
        (folder / "scratch").mkdir(mode=0o700, exist_ok=True)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.results: list[ToolResult] = []
        definitions.register("tools", lambda _body: self)
        operation("test.agent")(self.work)

    def body(self) -> dict[str, JSON]:
        return {}

    def start_properties(self, run_id: str) -> dict[str, JSON]:
        return {}

    async def interpret(self, run: RunContext) -> Outcome:
        await run.step("agent", "test.agent")
        return Outcome("succeeded")

    async def work(self, op: OperationContext, input: JSON) -> JSON:
        context = ToolContext(str(self.root), str(self.root), dict(os.environ), str(self.folder / "scratch"))
        permissions = Permissions(self.policy, "fixer", "s1", str(self.workspace))
        self.results = []
        async with McpServers(op, self.servers, str(self.folder / "scratch"), str(self.root)) as servers:
            toolbox = Toolbox([READ, WRITE, EDIT, SHELL, READ_OUTPUT, *await servers.tools()])
            await self.converse(op, context, toolbox, permissions)
        return None

    async def converse(
        self, op: OperationContext, context: ToolContext, toolbox: Toolbox, permissions: Permissions
    ) -> None:
        with open_context(op, context, toolbox, permissions) as opened:
            for number, (name, arguments) in enumerate(self.calls, 1):
                call = ToolCall(f"c{number}", name, json.dumps(arguments))
                self.results.append(await call_tool(op, f"tool-{number}", opened, call))

    def engine(self) -> Engine:
        return Engine(
            self.store,
            self.blobs,
            subscribers=lambda _run, _folder: [],
            run_dir=lambda run_id, _now: str(self.folder / run_id),
            seed=1,
            mask=Masker([SECRET]),
        )

    def run(self, *calls: tuple[str, dict[str, Any]], interviewers: Sequence[Interviewer] = ()) -> str:
        self.calls = list(calls)
        engine = self.engine()
        run_id = engine.submit(self)
        asyncio.run(engine.execute(run_id, interviewers=interviewers))
        return run_id

    def resume(self, run_id: str) -> RunResult:
        return asyncio.run(self.engine().execute(run_id))

    def events(self, run_id: str) -> list[Event]:
        row = self.store.find_run(run_id)
        assert row is not None
        return [event_of(run_id, each) for each in self.store.read_events(row.no)]

    def kill_after(self, run_id: str, event: str, step: str) -> None:
        """What a kill right after the last event of that name in that step leaves."""
        seq = max(each.seq for each in self.events(run_id) if (each.event, each.step) == (event, step))
        row = self.store.find_run(run_id)
        assert row is not None
        db = self.store._db
        db.execute("delete from events where key > ? and key < ?", ((row.no << 32) + seq, (row.no + 1) << 32))
        db.execute("update runs set status = 'running', settled_at = null, owner = null where id = ?", (row.no,))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    yield made
    made.store.close()


def test_a_finished_call_never_runs_again_and_what_was_seen_is_known_again(agent: Agent) -> None:
    (agent.root / "a").write_text("one\n")
    read, edit = ("read", {"path": "a"}), ("edit", {"path": "a", "old_string": "one", "new_string": "two"})
    run_id = agent.run(read, ("shell", {"command": "echo x >> count"}), edit)
    agent.kill_after(run_id, "step.completed", "agent/tool-2")
    (agent.root / "a").write_text("one\n")

    assert agent.resume(run_id).status == "succeeded"
    assert [each.is_error for each in agent.results] == [False, False, False]
    assert (agent.root / "count").read_text() == "x\n"
    assert (agent.root / "a").read_text() == "two\n"
    assert _contexts == {}


def test_a_shell_command_that_a_kill_interrupted_is_not_run_again(agent: Agent) -> None:
    run_id = agent.run(("shell", {"command": "echo x >> count"}))
    agent.kill_after(run_id, "agent.tool.started", "agent/tool-1")
    agent.resume(run_id)

    [result] = agent.results
    assert (result.text, result.is_error) == (INTERRUPTED, True)
    assert (agent.root / "count").read_text() == "x\n"


def test_a_shell_command_that_had_not_begun_is_run(agent: Agent) -> None:
    run_id = agent.run(("shell", {"command": "echo x >> count"}))
    agent.kill_after(run_id, "step.started", "agent/tool-1")
    (agent.root / "count").unlink()
    agent.resume(run_id)

    assert not agent.results[0].is_error
    assert (agent.root / "count").read_text() == "x\n"


def test_an_edit_that_a_kill_interrupted_is_done_once(agent: Agent) -> None:
    (agent.root / "a").write_text("one\n")
    run_id = agent.run(("read", {"path": "a"}), ("edit", {"path": "a", "old_string": "one", "new_string": "one one"}))
    agent.kill_after(run_id, "step.started", "agent/tool-2")
    agent.resume(run_id)

    assert not agent.results[1].is_error
    assert (agent.root / "a").read_text() == "one one\n"


def test_a_long_output_is_kept_and_can_be_read_on_after_a_resume(agent: Agent) -> None:
    run_id = agent.run(("shell", {"command": "seq 100000"}), ("read_output", {"call_id": "c1", "offset": 300_000}))
    agent.kill_after(run_id, "step.completed", "agent/tool-1")
    agent.resume(run_id)

    assert len(agent.results[0].text) < 31_000
    assert "\n52000\n" in agent.results[1].text


def test_a_model_reads_no_secret_now_or_at_a_replay(agent: Agent) -> None:
    (agent.root / "a").write_text(f"key = {SECRET}\n")
    run_id = agent.run(("read", {"path": "a"}), ("shell", {"command": "cat a"}))
    now = list(agent.results)
    agent.kill_after(run_id, "step.completed", "agent/tool-2")
    agent.resume(run_id)

    assert now == agent.results
    assert all("[masked]" in each.text and SECRET not in each.text for each in now)


def test_a_call_that_nobody_may_allow_is_refused_kept_and_recorded(agent: Agent) -> None:
    agent.policy = Policy("read-write")
    run_id = agent.run(("shell", {"command": "echo x > made"}), ("write", {"path": "a", "content": "x"}))

    assert [each.is_error for each in agent.results] == [True, False]
    assert "not allowed at the level read-write" in agent.results[0].text
    assert not (agent.root / "made").exists()
    assert [each.source for each in ApprovalStore(str(agent.workspace)).load()] == ["tool.call:shell"]
    assert "agent.tool.refused" in [each.event for each in agent.events(run_id)]


def test_grants_that_cannot_be_trusted_allow_nothing(agent: Agent) -> None:
    agent.workspace.mkdir(mode=0o700)
    (agent.workspace / "agent-grants.json").write_text("{}")
    agent.run(("shell", {"command": "echo x > made"}))

    assert agent.results[0].text == "Saved agent grants are invalid; refusing authorization."
    assert not (agent.root / "made").exists()


class Person:
    """Answers each question by the next of these words."""

    is_present = True

    def __init__(self, *words: str, by: str = "person") -> None:
        self.words = list(words)
        self.by = by
        self.texts: list[str] = []

    async def ask(self, pending: Any) -> Answer:
        self.texts.append(pending.question.text)
        return Answer("selected", [self.words.pop(0)], by=self.by)


MAKE = ("shell", {"command": "echo x >> made"})
ASKING = Policy("read-only", unresolved="ask")


def test_a_person_approves_once_and_is_asked_again(agent: Agent) -> None:
    agent.policy = ASKING
    person = Person("once", "deny")
    agent.run(MAKE, MAKE, interviewers=[person])

    assert [each.is_error for each in agent.results] == [False, True]
    assert (agent.root / "made").read_text() == "x\n"
    assert "fixer wants to use shell" in person.texts[0]
    assert "echo x >> made" in person.texts[0]


def test_a_person_allows_a_tool_for_the_session(agent: Agent) -> None:
    agent.policy = ASKING
    agent.run(MAKE, MAKE, interviewers=[Person("session")])

    assert (agent.root / "made").read_text() == "x\nx\n"


def test_an_automatic_yes_is_no_persons_yes(agent: Agent) -> None:
    agent.policy = ASKING
    agent.run(MAKE, interviewers=[Person("once", by="auto")])

    assert agent.results[0].is_error
    assert not (agent.root / "made").exists()


def test_an_approval_is_not_lost_when_the_owner_dies_before_the_call_begins(agent: Agent) -> None:
    agent.policy = ASKING
    run_id = agent.run(MAKE, interviewers=[Person("once")])
    agent.kill_after(run_id, "interview.completed", "agent/tool-1/approval")
    (agent.root / "made").unlink()
    agent.resume(run_id)

    assert not agent.results[0].is_error
    assert (agent.root / "made").read_text() == "x\n"
    assert len(GrantStore(str(agent.workspace)).load()) == 1


SERVER = """
from mcp.server import MCPServer
open("started", "a").write("x")
server = MCPServer("notes")

@server.tool()
def note(text: str) -> str:
    open("notes", "a").write(text)
    return "noted"

server.run("stdio")
"""


def test_a_call_of_another_program_is_recorded_and_in_doubt_after_a_kill(agent: Agent) -> None:
    script = agent.folder / "server.py"
    script.write_text(SERVER)
    agent.servers = {"notes": McpServer(command=sys.executable, args=[str(script)], permission="write")}
    run_id = agent.run(("notes__note", {"text": "a"}), ("notes__note", {"text": "b"}))
    assert [each.text for each in agent.results] == ["noted", "noted"]
    agent.kill_after(run_id, "agent.tool.started", "agent/tool-2")
    agent.resume(run_id)

    assert [each.text for each in agent.results] == ["noted", INTERRUPTED]
    assert (agent.root / "notes").read_text() == "ab"
    assert (agent.root / "started").read_text() == "x"


def test_a_tool_of_another_program_that_nobody_classified_is_refused(agent: Agent) -> None:
    script = agent.folder / "server.py"
    script.write_text(SERVER)
    agent.servers = {"notes": McpServer(command=sys.executable, args=[str(script)])}
    agent.run(("notes__note", {"text": "a"}))

    assert "not allowed at the level full" in agent.results[0].text
    assert not (agent.root / "notes").exists()


def test_a_killed_owner_leaves_no_command_and_the_conversation_goes_on(agent: Agent, tmp_path: Path) -> None:
    """A real process, a real kill in the middle of the second call."""
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from unit.agents.tools.test_operation import Agent, CALLS
Path.mkdir = lambda self, *args, make=Path.mkdir, **more: make(self, exist_ok=True)
Agent(Path({str(tmp_path)!r})).run(*CALLS)
"""
    owner = subprocess.Popen([sys.executable, "-c", code])
    pid_file = agent.root / "pid"
    while not pid_file.exists() or not pid_file.read_text().endswith("\n"):
        assert owner.poll() is None
        time.sleep(0.01)
    owner.kill()
    owner.wait()
    pids = [int(pid) for pid in pid_file.read_text().split()]
    assert all(process.started_at(pid) is not None for pid in pids)

    agent.calls = list(CALLS)
    [row] = agent.store.list_runs()
    assert agent.resume(row.run_id).status == "succeeded"
    assert [each.text for each in agent.results] == ["[no output]", INTERRUPTED, "once\n"]
    assert all(process.started_at(pid) is None for pid in pids)


CALLS = (
    ("shell", {"command": "echo once >> count"}),
    ("shell", {"command": "sleep 300 & echo $! $$ > pid; wait"}),
    ("shell", {"command": "cat count"}),
)
