"""The tools that only a loop can offer: an agent of one's own, and a question to a person. Each call is a step like any other."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.agents.backend import BackendError
from perdure.agents.loop.turn import Asking, current
from perdure.agents.tools.operation import harmless_text, open_context
from perdure.agents.tools.tool import Toolbox, ToolContext
from perdure.kernel.operation import operation
from perdure.kernel.question import Option, Question
from perdure.llm.protocol import Message, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from perdure.agents.loop.loop import Task
    from perdure.agents.loop.spending import Spending
    from perdure.agents.tools.operation import Open
    from perdure.base.jsonvalue import JSON
    from perdure.kernel.context import OperationContext, RunContext


class AgentArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the inner agent is asked, with all that it must know: it sees nothing else."""

    prompt: str


class QuestionArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and answers to choose from, if there are any."""

    question: str
    choices: list[str] = []


def _tool(name: str, description: str, arguments: type[msgspec.Struct]) -> Tool:
    schema = msgspec.json.schema(arguments)
    reference = schema.pop("$ref", "")
    found = schema.get("$defs", {}).get(reference.rpartition("/")[2], schema)
    return Tool(name, description, {key: value for key, value in found.items() if key != "title"})


AGENT = _tool(
    "agent",
    "Let another agent do one self-contained piece of work in the same folder, with the same tools; you get its answer. "
    "It knows only what you tell it, and cannot start agents itself.",
    AgentArguments,
)
ASK_USER = _tool(
    "ask_user",
    "Ask a person when only a person can decide. When nobody is there, you are told so: then decide by yourself, or say what is missing.",
    QuestionArguments,
)
NAMES = frozenset({AGENT.name, ASK_USER.name})
_DECLINED = "Nobody is here to answer. This is no answer and no permission: decide by yourself, or say what is missing."


class _Inner(msgspec.Struct, frozen=True):
    """What an inner agent needs of the outer one."""

    asking: Any
    opened: Any
    task: Any
    spending: Any


_outer: ContextVar[_Inner] = ContextVar("outer")


async def call(
    scope: RunContext, name: str, call: ToolCall, asking: Asking, opened: Open, task: Task, spending: Spending
) -> ToolResult:
    """The result of a call of one of these tools, recorded."""
    token = _outer.set(_Inner(asking, opened, task, spending))
    try:
        input: dict[str, JSON] = {"name": call.name, "arguments": harmless_text(call.arguments), "call_id": call.id}
        operation_name = "agent.inner" if call.name == AGENT.name else "agent.question"
        result: Any = await scope.step(name, operation_name, input)
    finally:
        _outer.reset(token)
    spending.add_inner(result.get("usage") or {})
    return ToolResult(call.id, str(result["text"]), bool(result["is_error"]))


@operation("agent.inner", effects=False)
async def run_inner(op: OperationContext, input: dict[str, Any]) -> JSON:
    """The answer of an inner agent: steps inside this one, so a kill in it goes on inside it too."""
    from perdure.agents.loop.loop import Loop
    from perdure.agents.loop.saving import Unsaved

    outer = _outer.get()
    arguments = _parsed(input, AgentArguments)
    if isinstance(arguments, str):
        return {"text": arguments, "is_error": True, "saw": []}
    asking = outer.asking.inner(outer.opened.toolbox.definitions())
    spending: Spending = outer.spending.inner()
    system = tuple(each for each in outer.asking.conversation.seen[:1] if each.role == "system")
    task = outer.task._replace(first=(*system, Message("user", text=arguments.prompt)), schema=None)
    given: ToolContext = outer.opened.context
    context = ToolContext(
        root=given.root, cwd=given.cwd, env=given.env, scratch=given.scratch, sandbox=given.sandbox,
        allow_network=given.allow_network, allow_private_addresses=given.allow_private_addresses, hidden=given.hidden,
        new_filter=given.new_filter,
    )  # fmt: skip
    token = current.set(asking)
    try:
        with open_context(op, context, outer.opened.toolbox, outer.opened.permissions) as opened:
            answer = await Loop(op, asking, task, opened, Unsaved(), spending).run()
    except BackendError as error:
        return {"text": f"The agent failed: {error.message}", "is_error": True, "saw": [], "usage": spending.usage}
    finally:
        current.reset(token)
    return {"text": answer.text, "is_error": False, "saw": [], "usage": spending.usage}


@operation("agent.question")
async def ask_person(op: OperationContext, input: dict[str, Any]) -> JSON:
    """A person's answer, or that nobody is there."""
    arguments = _parsed(input, QuestionArguments)
    if isinstance(arguments, str):
        return {"text": arguments, "is_error": True, "saw": []}
    if not op.is_attended:
        op.emit("agent.question.declined", {"question": arguments.question})
        return {"text": _DECLINED, "is_error": True, "saw": []}
    options = [Option(str(number), text) for number, text in enumerate(arguments.choices, start=1)]
    question = Question(
        text=arguments.question,
        type="multiple_choice" if options else "freeform",
        options=options,
        allow_freeform=True,
    )
    answer = await op.ask("answer", question)
    by_key = {option.key: option.label for option in options}
    said = "; ".join(by_key.get(each, each) for each in answer.selected) or answer.text
    if not answer.is_consent or answer.by in ("auto", "default", "nobody") or not said:
        return {"text": _DECLINED, "is_error": True, "saw": []}
    return {"text": said, "is_error": False, "saw": []}


def _parsed(input: dict[str, Any], form: type[Any]) -> Any:
    """The arguments, or what is wrong with them in words for the model."""
    try:
        return msgspec.json.decode(str(input["arguments"]), type=form)
    except (msgspec.DecodeError, RecursionError) as error:
        return f"The arguments of {input['name']} cannot be used: {error}."


def offered(toolbox: Toolbox) -> tuple[Tool, ...]:
    """All tools of an outer agent."""
    return (*toolbox.definitions(), AGENT, ASK_USER)
