"""What every model adapter promises, each with its real library against a strict provider on loopback."""

import asyncio
import socket
import threading
import traceback
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import pytest

from perdure.base.errors import Refused
from perdure.llm.keys import KeyMissing
from perdure.llm.protocol import Message, Model, ModelError, ModelRequest, ModelTurn, Tool, ToolCall, ToolResult, Usage
from perdure.llm.registry import find_model
from perdure.testing.providers import Call, FakeProvider, Reply

T = TypeVar("T")
BACKENDS = ("openai", "anthropic", "openai-compatible")
READ = Tool("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
ASK = (Message("system", "Be brief."), Message("user", "What is in a.txt?"))
CALL_READ = Reply(reasoning="I should look.", tool_calls=[Call("read", {"path": "a.txt"})])
LIMIT_S = 20


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def _use(backend: str, provider: FakeProvider, work: Callable[[Model], Awaitable[T]], idle_s: float = 20.0) -> T:
    async def run() -> T:
        model = find_model(backend, environ=provider.environ, home=None, idle_s=idle_s)
        try:
            async with asyncio.timeout(LIMIT_S):
                return await work(model)
        finally:
            await model.close()

    return asyncio.run(run())


def _request(messages: tuple[Message, ...] = ASK, **more: Any) -> ModelRequest:
    return ModelRequest(**{"model": "fake-model", "messages": messages, "tools": (READ,), **more})


def _turn(backend: str, reply: Reply, **more: Any) -> tuple[ModelTurn, FakeProvider, list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    with FakeProvider([reply]) as provider:
        request = _request(**more)
        turn = _use(backend, provider, lambda model: model.turn(request, lambda kind, text: heard.append((kind, text))))
    return turn, provider, heard


def _failure(backend: str, reply: Reply, idle_s: float = 20.0) -> ModelError:
    """The error of a turn that must fail; it was asked for once, and its whole traceback holds no key."""
    with FakeProvider([reply, reply]) as provider, pytest.raises(ModelError) as caught:
        _use(backend, provider, lambda model: model.turn(_request(), lambda *_: None), idle_s)
    assert len(provider.requests) == 1
    assert provider.key not in "".join(traceback.format_exception(caught.value))
    return caught.value


def _follow(turn: ModelTurn, text: str = "two words") -> tuple[Message, ...]:
    results = tuple(ToolResult(call.id, text) for call in turn.message.tool_calls)
    return (*ASK, turn.message, Message("tool", tool_results=results))


def test_text_streams_in_order_and_is_whole_at_the_end(backend: str) -> None:
    turn, _provider, heard = _turn(backend, Reply(text="It holds nothing but two words: grüß Gött 😀."))

    assert "".join(text for kind, text in heard if kind == "text") == turn.message.text
    assert turn.message.text == "It holds nothing but two words: grüß Gött 😀."
    assert len(heard) > 2
    assert turn.stop_reason == "end"


def test_public_reasoning_is_a_summary_and_not_text(backend: str) -> None:
    turn, _provider, heard = _turn(backend, Reply(reasoning="I know this one.", text="Yes."))

    assert (turn.message.summary, turn.message.text) == ("I know this one.", "Yes.")
    assert "".join(text for kind, text in heard if kind == "summary") == "I know this one."


def test_a_tool_call_keeps_its_arguments_as_written(backend: str) -> None:
    turn, _provider, _heard = _turn(backend, Reply(tool_calls=[Call("read", '{"path":   "a.txt"}')]))

    [call] = turn.message.tool_calls
    assert (call.name, call.arguments) == ("read", '{"path":   "a.txt"}')
    assert turn.stop_reason == "tool_calls"


def test_arguments_that_are_no_json_come_through_and_can_be_answered(backend: str) -> None:
    """The strict provider takes the conversation on, so the loop can tell the model what was wrong."""
    with FakeProvider([Reply(tool_calls=[Call("read", '{"path": ')]), Reply(text="Sorry.")]) as provider:

        async def work(model: Model) -> tuple[str, str]:
            first = await model.turn(_request(), lambda *_: None)
            second = await model.turn(_request(_follow(first)), lambda *_: None)
            return first.message.tool_calls[0].arguments, second.message.text

        assert _use(backend, provider, work) == ('{"path": ', "Sorry.")


def test_a_turn_is_replayed_word_for_word(backend: str) -> None:
    """The provider seals its reasoning and refuses a changed seal, missing reasoning, and unanswered calls."""
    with FakeProvider([CALL_READ, CALL_READ, Reply(text="Two words.")]) as provider:

        async def work(model: Model) -> ModelTurn:
            first = await model.turn(_request(reasoning_effort="high"), lambda *_: None)
            stored = _restored(_follow(first))
            second = await model.turn(_request(stored, reasoning_effort="high"), lambda *_: None)
            messages = (*stored, *_restored(_follow(second))[2:])
            return await model.turn(_request(messages, reasoning_effort="high"), lambda *_: None)

        turn = _use(backend, provider, work)

    assert turn.message.text == "Two words."
    before, after = (_conversation(request.body) for request in provider.requests[1:])
    assert after[: len(before)] == before


def _restored(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Messages as they are after a while on disk."""
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(messages), type=tuple[Message, ...])


def _conversation(body: dict[str, Any]) -> list[Any]:
    found: list[Any] = body.get("input") or body["messages"]
    for message in found:
        for block in message.get("content") or () if isinstance(message.get("content"), list) else ():
            block.pop("cache_control", None)
    return found


def test_a_conversation_of_another_provider_is_taken_on(backend: str) -> None:
    foreign = Message(
        "assistant",
        text="Let me look.",
        tool_calls=(ToolCall("call:1/x", "read", '{"path": "a.txt"}'),),
        wire_format="somebody.elses",
        wire=({"type": "secret"},),
    )
    messages = (*ASK, foreign, Message("tool", tool_results=(ToolResult("call:1/x", "two words"),)))

    turn, _provider, _heard = _turn(backend, Reply(text="Two words."), messages=messages)

    assert turn.message.text == "Two words."


def test_words_of_a_person_after_a_tools_result_are_taken_on(backend: str) -> None:
    with FakeProvider([CALL_READ, Reply(text="Stopped.")]) as provider:

        async def work(model: Model) -> ModelTurn:
            first = await model.turn(_request(), lambda *_: None)
            return await model.turn(_request((*_follow(first), Message("user", "Stop."))), lambda *_: None)

        assert _use(backend, provider, work).message.text == "Stopped."


def test_usage_is_what_was_reported(backend: str) -> None:
    turn, _provider, _heard = _turn(backend, Reply(text="Yes.", usage={"input": 100, "output": 7, "cache_read": 60}))

    assert turn.usage is not None
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.cache_read_tokens) == (100, 7, 60)
    assert turn.usage.cache_write_tokens is None


def test_usage_that_was_not_reported_stays_absent(backend: str) -> None:
    turn, _provider, _heard = _turn(backend, Reply(text="Yes.", usage=None))

    assert turn.usage is None


@pytest.mark.parametrize(
    ("reply", "code", "retryable"),
    [
        (Reply(status=401, error={"type": "authentication_error", "message": "bad key"}), "AUTHENTICATION", False),
        (Reply(status=403), "AUTHENTICATION", False),
        (Reply(status=429, error={"code": "insufficient_quota", "message": "no credit"}), "QUOTA", False),
        (Reply(status=429), "RATE_LIMIT", True),
        (Reply(status=500), "TRANSIENT", True),
        (Reply(status=503), "TRANSIENT", True),
        (Reply(status=529, error={"type": "overloaded_error", "message": "Overloaded"}), "TRANSIENT", True),
        (Reply(status=400, error={"message": "prompt is too long: 9 tokens > 8 maximum"}), "CONTEXT_LENGTH", False),
        (Reply(status=400, error={"code": "content_policy_violation", "message": "no"}), "REFUSED", False),
        (Reply(status=400, error={"message": "Unknown parameter"}), "PROVIDER_ERROR", False),
        (Reply(text="a" * 100, fault="cut"), "TRANSIENT", True),
        (Reply(text="a" * 100, fault="cut_clean"), "TRANSIENT", True),
        (Reply(text="a" * 100, fault="early_end"), "TRANSIENT", True),
        (Reply(fault="empty"), "TRANSIENT", True),
        (Reply(fault="page"), "PROVIDER_ERROR", False),
        (Reply(text="half", fault="failed"), "TRANSIENT", True),
        (Reply(text="GREEN", fault="incomplete"), "PROVIDER_ERROR", False),
    ],
    ids=lambda each: f"{each.fault or each.status}" if isinstance(each, Reply) else str(each),
)
def test_a_failure_has_its_code(backend: str, reply: Reply, code: str, retryable: bool) -> None:
    error = _failure(backend, reply)

    assert (error.error_code, error.retryable) == (code, retryable), str(error)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({"retry-after-ms": "1500"}, 1500), ({"Retry-After": "7"}, 7000), ({"Retry-After": "soon"}, None), ({}, None)],
    ids=str,
)
def test_the_providers_wish_to_wait_is_told(backend: str, headers: dict[str, str], expected: int | None) -> None:
    assert _failure(backend, Reply(status=429, headers=headers)).retry_after_ms == expected


def test_an_answer_that_broke_off_had_output(backend: str) -> None:
    assert _failure(backend, Reply(text="a" * 100, fault="cut")).had_output
    assert not _failure(backend, Reply(status=500)).had_output


def test_a_provider_that_falls_silent_is_a_time_out(backend: str) -> None:
    silent = _failure(backend, Reply(fault="silent"), idle_s=0.2)
    hanging = _failure(backend, Reply(text="a" * 100, fault="hang"), idle_s=0.2)

    assert (silent.error_code, silent.had_output) == ("TIMEOUT", False)
    assert (hanging.error_code, hanging.had_output) == ("TIMEOUT", True)


def test_a_slow_answer_is_no_time_out(backend: str) -> None:
    with FakeProvider([Reply(text="a" * 120, fault="drip")]) as provider:
        turn = _use(backend, provider, lambda model: model.turn(_request(), lambda *_: None), idle_s=2.0)

    assert turn.message.text == "a" * 120


def test_a_redirect_is_refused_and_gets_no_key(backend: str) -> None:
    with FakeProvider([Reply(text="Got it.")]) as thief:
        error = _failure(backend, Reply(fault="redirect", location=f"{thief.url}/v1/responses"))

    assert error.error_code == "PROVIDER_ERROR"
    assert f"127.0.0.1:{thief.port}" in str(error)
    assert thief.log.requests == []


def test_a_key_in_a_providers_message_is_masked(backend: str) -> None:
    with FakeProvider([]) as provider:
        wrong = {
            name: "sk-wrong0123456789abcdefghij" if name.endswith("_KEY") else value
            for name, value in provider.environ.items()
        }

        async def run() -> None:
            model = find_model(backend, environ=wrong, home=None)
            try:
                await model.turn(_request(), lambda *_: None)
            finally:
                await model.close()

        with pytest.raises(ModelError) as caught:
            asyncio.run(run())

    assert caught.value.error_code == "AUTHENTICATION"
    assert "sk-wrong" not in "".join(traceback.format_exception(caught.value))
    assert "masked" in str(caught.value)


def test_nobody_there_is_transient(backend: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        async def run() -> None:
            environ = {"OPENAI_API_KEY": "some-key-0123", "ANTHROPIC_API_KEY": "some-key-0123"}
            model = find_model(backend, base_url=url, environ=environ, home=None)
            try:
                await model.turn(_request(), lambda *_: None)
            finally:
                await model.close()

        with pytest.raises(ModelError) as caught:
            asyncio.run(run())

    assert (caught.value.error_code, caught.value.retryable) == ("TRANSIENT", True)
    assert url.removeprefix("http://") in str(caught.value)


def test_cancelling_a_turn_ends_its_connection(backend: str) -> None:
    with FakeProvider([Reply(text="a" * 100, fault="hang")]) as provider:

        async def work(model: Model) -> None:
            heard = asyncio.Event()
            turning = asyncio.create_task(model.turn(_request(), lambda *_: heard.set()))
            await heard.wait()
            turning.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turning
            # The model is still open: it is this one connection that ended.
            await asyncio.to_thread(provider.wait, lambda requests: requests[0].outcome == "gone")

        _use(backend, provider, work)


def test_half_of_a_surrogate_pair_breaks_nothing(backend: str) -> None:
    with FakeProvider([Reply(text="half \ud83d here"), Reply(text="Yes.")]) as provider:

        async def work(model: Model) -> list[str]:
            first = await model.turn(_request(), lambda *_: None)
            messages = (*ASK, first.message, Message("user", "And \udc00?"))
            second = await model.turn(_request(messages), lambda *_: None)
            return [first.message.text, second.message.text]

        assert _use(backend, provider, work) == ["half \ufffd here", "Yes."]


def test_a_byte_that_is_no_utf8_breaks_nothing(backend: str) -> None:
    turn, _provider, _heard = _turn(backend, Reply(text="half \ufffd here", fault="bad_utf8"))

    assert turn.message.text == "half \ufffd here"


def test_a_refusal_of_the_model_is_told_as_one(backend: str) -> None:
    turn, _provider, _heard = _turn(backend, Reply(text="I will not.", fault="refused"))

    assert (turn.stop_reason, turn.message.text) == ("refused", "I will not.")


@pytest.mark.parametrize("backend", ["openai", "anthropic"])
def test_an_answer_of_another_model_is_an_error(backend: str) -> None:
    error = _failure(backend, Reply(text="Yes.", fault="wrong_model"))

    assert error.error_code == "PROVIDER_ERROR"
    assert "fake-model" in str(error)
    assert "somebody-else" in str(error)


@pytest.mark.parametrize("dated", ["fake-model-2026-03-01", "fake-model-20260301"])
def test_the_dated_form_of_a_model_is_that_model(backend: str, dated: str) -> None:
    turn, _provider, _heard = _turn(backend, Reply(text="Yes.", model=dated))

    assert turn.model == dated


def test_a_schema_a_limit_and_own_parameters_reach_the_provider(backend: str) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    more = {"schema": schema, "max_output_tokens": 99, "parameters": {"metadata": {"a": "b"}}, "cache_key": "thread-1"}
    _turned, provider, _heard = _turn(backend, Reply(text="{}"), **more)

    body = provider.requests[0].body
    assert schema in list(_values(body))
    assert 99 in (body.get("max_output_tokens"), body.get("max_tokens"))
    assert body["metadata"] == {"a": "b"}
    assert backend != "openai" or body["prompt_cache_key"] == "thread-1"


def _values(value: Any) -> Any:
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(each)


def test_what_was_not_asked_for_is_not_sent(backend: str) -> None:
    _turned, provider, _heard = _turn(backend, Reply(text="Yes."), tools=())

    sent = set(provider.requests[0].body)
    assert sent <= {
        "model",
        "stream",
        "store",
        "include",
        "instructions",
        "input",
        "messages",
        "system",
        "max_tokens",
        "stream_options",
    }


@pytest.mark.parametrize("backend", ["openai", "anthropic"])
def test_an_effort_that_a_provider_has_not_is_refused_before_it_is_sent(backend: str) -> None:
    with FakeProvider([Reply()]) as provider, pytest.raises(Refused, match="effort 'huge'"):
        _use(backend, provider, lambda model: model.turn(_request(reasoning_effort="huge"), lambda *_: None))

    assert provider.requests == []


def test_anthropic_never_asks_for_more_than_its_limit_of_a_turn() -> None:
    _turned, provider, _heard = _turn("anthropic", Reply(text="Yes."), max_output_tokens=50_000)
    _again, other, _more = _turn("anthropic", Reply(text="Yes."))

    assert [each.requests[0].body["max_tokens"] for each in (provider, other)] == [16_384, 16_384]


def test_anthropic_never_gets_thinking_without_a_signature_back() -> None:
    wire = ({"type": "thinking", "thinking": "Hm.", "signature": ""}, {"type": "text", "text": "Yes."})
    cut = Message("assistant", text="Yes.", wire_format="anthropic.messages", wire=wire)
    _turned, provider, _heard = _turn("anthropic", Reply(text="Yes."), messages=(*ASK, cut, Message("user", "Sure?")))

    assert provider.requests[0].body["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]


def test_models_are_listed_in_the_providers_order_from_all_pages(backend: str) -> None:
    names = ("zeta", "alpha", "mid-1", "mid-2", "omega")
    with FakeProvider(models=names) as provider:
        found = _use(backend, provider, lambda model: model.models())

    assert tuple(each.slug for each in found) == names
    assert found[2].display_name == ("Mid 1" if backend == "anthropic" else "mid-1")


class _SignIn(BaseHTTPRequestHandler):
    """What stands in the way of a provider in some networks."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"<html/>")

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_web_page_in_the_place_of_models_is_told_as_one(backend: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _SignIn) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()

        async def run() -> None:
            environ = {"OPENAI_API_KEY": "x" * 9, "ANTHROPIC_API_KEY": "x" * 9}
            model = find_model(backend, base_url=f"http://127.0.0.1:{server.server_port}", environ=environ, home=None)
            try:
                await model.models()
            finally:
                await model.close()

        try:
            with pytest.raises(ModelError, match="web page"):
                asyncio.run(run())
        finally:
            server.shutdown()


def test_listing_models_with_a_wrong_key_says_so(backend: str) -> None:
    with FakeProvider(key="another-key") as provider:
        environ = {
            **provider.environ,
            "OPENAI_API_KEY": "x" * 9,
            "ANTHROPIC_API_KEY": "x" * 9,
            "PERDURE_API_KEY": "x" * 9,
        }

        async def run() -> None:
            model = find_model(backend, environ=environ, home=None)
            try:
                await model.models()
            finally:
                await model.close()

        with pytest.raises(ModelError) as caught:
            asyncio.run(run())

    assert caught.value.error_code == "AUTHENTICATION"
    assert "xxxxxxxxx" not in "".join(traceback.format_exception_only(caught.value))


@pytest.mark.parametrize("backend", ["openai", "anthropic"])
def test_a_missing_key_is_told_with_both_ways_to_give_it(backend: str) -> None:
    with pytest.raises(KeyMissing, match=rf"{backend.upper()}_API_KEY.*auth.*/{backend}"):
        find_model(backend, environ={}, home=None)


class TestWhatLocalServersLeaveOut:
    """Chat Completions as they are found in the wild."""

    def _read(self, *chunks: dict[str, Any], done: bool = True) -> ModelTurn:
        import json

        from perdure.llm.chat_stream import Reading
        from perdure.llm.sse import ServerEvent
        from perdure.llm.transport import Endpoint

        reading = Reading(Endpoint("openai-compatible"), lambda *_: None)
        for chunk in chunks:
            reading.take(ServerEvent("", json.dumps(chunk)))
        if done:
            reading.take(ServerEvent("", "[DONE]"))
        return reading.turn()

    def _calls(self, *deltas: dict[str, Any]) -> list[tuple[str, str]]:
        turn = self._read(*({"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas))
        assert len({call.id for call in turn.message.tool_calls}) == len(turn.message.tool_calls)
        return [(call.name, call.arguments) for call in turn.message.tool_calls]

    def test_the_index(self) -> None:
        assert self._calls(
            {"id": "a", "function": {"name": "read", "arguments": '{"p'}},
            {"function": {"arguments": '": 1}'}},
            {"id": "b", "function": {"name": "list", "arguments": "{}"}},
        ) == [("read", '{"p": 1}'), ("list", "{}")]

    def test_different_indexes(self) -> None:
        assert self._calls(
            {"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}},
            {"index": 0, "id": "b", "function": {"name": "list", "arguments": "{}"}},
        ) == [("read", "{}"), ("list", "{}")]

    def test_the_id(self) -> None:
        assert self._calls(
            {"function": {"name": "read", "arguments": {"p": 1}}}, {"function": {"name": "list", "arguments": ""}}
        ) == [("read", '{"p": 1}'), ("list", "{}")]

    def test_the_finish_reason_and_usage(self) -> None:
        turn = self._read({"choices": [{"delta": {"content": "Yes."}}], "usage": None})

        assert (turn.message.text, turn.stop_reason, turn.usage) == ("Yes.", "end", None)

    def test_the_end_mark(self) -> None:
        turn = self._read({"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]}, done=False)

        assert turn.message.text == "Yes."

    def test_the_stream(self) -> None:
        from perdure.llm.chat_stream import Reading
        from perdure.llm.transport import Endpoint

        reading = Reading(Endpoint("openai-compatible"), lambda *_: None)
        reading.take_whole({"choices": [{"message": {"content": "Yes."}}], "usage": {"prompt_tokens": 3}})

        assert reading.turn().usage == Usage(input_tokens=3)
        assert reading.turn().message.text == "Yes."
