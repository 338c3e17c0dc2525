"""The backend `local` with its real model: shapes are asserted, never prose, as the model is small."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import psutil
import pytest

from perdure.base.errors import EnvironmentFault
from perdure.llm.anthropic import AnthropicModel
from perdure.llm.local import SLUG, LocalModel, find_weights
from perdure.llm.openai import OpenAIModel
from perdure.llm.protocol import Message, Model, ModelError, ModelRequest
from perdure.llm.registry import find_model
from perdure.llm.transport import Endpoint

T = TypeVar("T")

try:
    find_weights()
    _MISSING = ""
except EnvironmentFault as fault:
    _MISSING = str(fault)

pytestmark = [pytest.mark.model, pytest.mark.skipif(bool(_MISSING), reason=_MISSING)]
ASK = (Message("system", "You are a helpful assistant."), Message("user", "Name the capital of France."))
SCHEMA = {
    "type": "object",
    # A text without an end in sight could go on until the limit.
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "is_capital": {"type": "boolean"}},
    "required": ["city", "is_capital"],
    "additionalProperties": False,
}


def _use(work: Callable[[LocalModel], Awaitable[T]]) -> T:
    async def run() -> T:
        model = find_model("local", environ={}, home=None)
        assert isinstance(model, LocalModel)
        try:
            async with asyncio.timeout(50):
                return await work(model)
        finally:
            await model.close()

    return asyncio.run(run())


def test_a_conversation_goes_on_streams_and_counts() -> None:
    heard: list[str] = []

    async def work(model: LocalModel) -> None:
        request = ModelRequest(SLUG, ASK, max_output_tokens=40)
        first = await model.turn(request, lambda _kind, text: heard.append(text))
        again = (*ASK, first.message, Message("user", "Say it again."))
        second = await model.turn(ModelRequest("", again, max_output_tokens=40), lambda *_: None)

        assert "".join(heard) == first.message.text
        assert len(heard) > 1
        assert first.usage is not None
        assert second.usage is not None
        assert (first.usage.output_tokens or 0) > 0
        assert (second.usage.input_tokens or 0) > (first.usage.input_tokens or 0)
        assert first.model == SLUG

    _use(work)


def test_the_same_question_gets_the_same_answer() -> None:
    async def work(model: LocalModel) -> None:
        request = ModelRequest(SLUG, ASK, max_output_tokens=20)
        texts = [(await model.turn(request, lambda *_: None)).message.text for _ in range(2)]
        assert texts[0] == texts[1]

    _use(work)


def test_an_answer_keeps_to_its_schema() -> None:
    request = ModelRequest(SLUG, ASK, schema=SCHEMA, max_output_tokens=200)

    found = json.loads(_use(lambda model: model.turn(request, lambda *_: None)).message.text)

    assert found.keys() == {"city", "is_capital"}
    assert found["city"] in ("Paris", "Rome")
    assert isinstance(found["is_capital"], bool)


def test_an_answer_that_is_cut_at_its_limit_is_an_error() -> None:
    request = ModelRequest(SLUG, (Message("user", "Count from 1 to 500."),), max_output_tokens=3)

    with pytest.raises(ModelError, match="limit of output tokens"):
        _use(lambda model: model.turn(request, lambda *_: None))


def test_a_cancelled_turn_leaves_the_model_usable() -> None:
    async def work(model: LocalModel) -> None:
        heard = asyncio.Event()
        long = ModelRequest(SLUG, (Message("user", "Count from 1 to 500."),), max_output_tokens=400)
        turning = asyncio.create_task(model.turn(long, lambda *_: heard.set()))
        await heard.wait()
        turning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turning
        assert (await model.turn(ModelRequest(SLUG, ASK, max_output_tokens=20), lambda *_: None)).message.text

    _use(work)


def test_another_model_is_not_made_up() -> None:
    with pytest.raises(ModelError, match=SLUG):
        _use(lambda model: model.turn(ModelRequest("gpt-5", ASK), lambda *_: None))


def test_a_real_server_is_understood_on_all_wires() -> None:
    """llama.cpp serves Chat Completions, Responses and Messages, each read by its adapter and the vendor's library."""

    async def work(local: LocalModel) -> None:
        endpoint = (await local._started())._endpoint
        root = endpoint.base_url.removesuffix("/v1")
        adapters: tuple[Model, ...] = (
            OpenAIModel(Endpoint("openai", f"{root}/v1", endpoint.key)),
            AnthropicModel(Endpoint("anthropic", root, endpoint.key)),
        )
        for model in adapters:
            heard: list[str] = []
            request = ModelRequest(SLUG, ASK, max_output_tokens=60, parameters={"temperature": 0})
            first = await model.turn(request, lambda _kind, text, heard=heard: heard.append(text))  # type: ignore[misc]
            again = (*ASK, first.message, Message("user", "Say it again."))
            second = await model.turn(msgspec.structs.replace(request, messages=again), lambda *_: None)
            await model.close()

            assert "".join(heard) == first.message.text != ""
            assert first.usage is not None
            assert second.message.text

    _use(work)


def test_its_server_ends_with_the_process_that_started_it() -> None:
    program = """
import asyncio, sys
from perdure.llm.anthropic import AnthropicModel
from perdure.llm.local import LocalModel
from perdure.llm.protocol import Message, ModelRequest
async def main():
    model = LocalModel()
    await model.turn(ModelRequest("", (Message("user", "Hi"),), max_output_tokens=30), lambda *_: None)
    print(model._server.pid, flush=True)
    sys.stdin.read()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        server = psutil.Process(int(owner.stdout.readline()))
        owner.kill()

    server.wait(20)
    assert not server.is_running()
