"""An agent of the Agent Client Protocol, made with the official library: its prompt says what it is to do. A program."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import acp
from acp.schema import (
    AgentCapabilities,
    AuthMethodAgent,
    LoadSessionResponse,
    PermissionOption,
    ToolCallLocation,
    ToolCallUpdate,
    Usage,
)

HOME = Path(os.environ["ACP_HOME"])
FLAGS = os.environ.get("ACP_FLAGS", "").split()


def note(**facts: Any) -> None:
    with (HOME / "asked.jsonl").open("a") as file:
        file.write(json.dumps(facts) + "\n")


class TestAgent:
    def __init__(self) -> None:
        self.client: Any = None
        self.cancelled = asyncio.Event()

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> Any:
        note(
            initialize=protocol_version,
            capabilities=client_capabilities.model_dump(by_alias=True),
            name=client_info.name,
        )
        print("a line that is no message", flush=True)
        return acp.InitializeResponse(
            protocol_version=99 if "future" in FLAGS else protocol_version,
            agent_capabilities=AgentCapabilities(load_session="forgetful" not in FLAGS),
            auth_methods=[AuthMethodAgent(id="login", name="agent login")],
        )

    async def new_session(self, cwd: str, **_: Any) -> Any:
        if "locked" in FLAGS:
            raise acp.RequestError.auth_required()
        session_id = f"session-{len(list(HOME.glob('session-*'))) + 1}"
        (HOME / session_id).write_text("[]")
        note(new=session_id, cwd=cwd)
        return acp.NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> Any:
        if not (HOME / session_id).exists():
            raise acp.RequestError(-32002, "Resource not found")
        note(load=session_id)
        for said in json.loads((HOME / session_id).read_text()):
            await self.say(session_id, f"old: {said}")
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> Any:
        text = prompt[0].text
        note(prompt=text, session=session_id)
        history = json.loads((HOME / session_id).read_text())
        (HOME / session_id).write_text(json.dumps([*history, text]))
        word, _, rest = text.partition(" ")
        stop = await getattr(self, f"do_{word}", self.do_echo)(session_id, rest)
        return acp.PromptResponse(
            stop_reason=stop or "end_turn",
            usage=Usage(total_tokens=30, input_tokens=20, output_tokens=10, thought_tokens=4),
        )

    async def cancel(self, session_id: str, **_: Any) -> None:
        note(cancel=session_id)
        self.cancelled.set()

    async def say(self, session_id: str, text: str) -> None:
        for piece in (text[:3], text[3:]):
            await self.client.session_update(session_id, acp.update_agent_message_text(piece))

    async def do_echo(self, session_id: str, rest: str) -> None:
        await self.say(session_id, "You said it.")

    async def do_work(self, session_id: str, path: str) -> None:
        await self.say(session_id, "I begin.")
        where = [ToolCallLocation(path=path)]
        await self.client.session_update(
            session_id, acp.start_tool_call("t1", "Edit it", kind="edit", status="pending", locations=where)
        )
        await self.client.session_update(session_id, acp.update_tool_call("t1", status="completed"))
        await self.say(session_id, "Done.")

    async def do_permission(self, session_id: str, rest: str) -> None:
        kind, _, path = rest.partition(" ")
        where = [ToolCallLocation(path=path)] if path else None
        options = [
            PermissionOption(option_id="always", name="Always", kind="allow_always"),
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        call = ToolCallUpdate(tool_call_id="t1", title=f"Do {kind}", kind=kind, locations=where)  # type: ignore[arg-type]
        answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
        await self.say(session_id, json.dumps(answer.outcome.model_dump(by_alias=True, exclude_none=True)))

    async def do_write(self, session_id: str, rest: str) -> None:
        path, _, content = rest.partition(" ")
        try:
            await self.client.write_text_file(content=content, path=path, session_id=session_id)
        except acp.RequestError as error:
            await self.say(session_id, f"refused: {error}")
        else:
            await self.say(session_id, "written")

    async def do_read(self, session_id: str, path: str) -> None:
        try:
            found = await self.client.read_text_file(path=path, session_id=session_id, line=2, limit=1)
        except acp.RequestError as error:
            await self.say(session_id, f"refused: {error}")
        else:
            await self.say(session_id, f"read: {found.content}")

    async def do_terminal(self, session_id: str, rest: str) -> None:
        try:
            await self.client.create_terminal(command="true", session_id=session_id)
        except acp.RequestError as error:
            await self.say(session_id, f"refused: {error}")

    async def do_stop(self, session_id: str, reason: str) -> str:
        await self.say(session_id, "So far.")
        return reason

    async def do_die(self, session_id: str, rest: str) -> None:
        await self.say(session_id, "I was at it.")
        await self.client.session_update(session_id, acp.start_tool_call("t1", "Die", kind="execute"))
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(7)

    async def do_hang(self, session_id: str, rest: str) -> str:
        with open(HOME / "ready", "w") as file:
            file.write(str(os.getpid()))
        await self.cancelled.wait()
        return "cancelled"


asyncio.run(acp.run_agent(cast("acp.Agent", TestAgent())))
