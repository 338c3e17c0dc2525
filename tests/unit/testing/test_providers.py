"""The fake providers refuse what real ones refuse, and keep what tests need to know."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from perdure.base.errors import Refused
from perdure.testing.providers import Call, FakeProvider, Recorded, Reply, load_script
from perdure.testing.providers.seals import seal
from perdure.testing.providers.server import KEY

PATHS = {"openai": "/v1/responses", "anthropic": "/v1/messages", "chat": "/v1/chat/completions"}
USER = {"role": "user", "content": "Hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "x"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal("rs_1")}
LED = {**CALL, "call_id": "call_1_0_after_rs_1"}
USE = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
ANSWER = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}


def _post(provider: FakeProvider, wire: str, body: dict[str, Any], key: str = KEY) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{provider.url}{PATHS[wire]}", json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def _body(wire: str, items: list[Any], **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"model": "fake-model", "stream": True}
    if wire == "openai":
        return base | {"store": False, "include": ["reasoning.encrypted_content"], "input": items} | more
    return base | {"messages": items} | ({"max_tokens": 9} if wire == "anthropic" else {}) | more


def _assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def _user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


@pytest.mark.parametrize(
    ("wire", "items"),
    [
        ("openai", [USER]),
        ("openai", [USER, CALL, RESULT]),
        ("openai", [USER, REASONING, LED, {**RESULT, "call_id": LED["call_id"]}]),
        ("anthropic", [USER, _assistant(USE), _user(ANSWER)]),
        (
            "chat",
            [
                USER,
                {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "x"},
            ],
        ),
    ],
)
def test_a_sound_conversation_is_answered(wire: str, items: list[Any]) -> None:
    with FakeProvider([Reply(text="Yes.")]) as provider:
        status, text = _post(provider, wire, _body(wire, items))

    assert status == 200, text
    assert [request.outcome for request in provider.requests] == ["answered"]


@pytest.mark.parametrize(
    ("wire", "items", "why"),
    [
        ("openai", [], "not empty"),
        ("openai", [USER, CALL], "No tool output found"),
        ("openai", [USER, CALL, USER], "No tool output found"),
        ("openai", [USER, RESULT], "No tool call found"),
        ("openai", [USER, CALL, RESULT, RESULT], "Two outputs"),
        ("openai", [USER, CALL, CALL, RESULT], "Duplicate call_id"),
        ("openai", [USER, LED, {**RESULT, "call_id": LED["call_id"]}], "required 'reasoning' item: 'rs_1'"),
        ("openai", [USER, {**REASONING, "encrypted_content": "changed"}, CALL, RESULT], "could not be verified"),
        ("openai", [USER, {**REASONING, "encrypted_content": None}, CALL, RESULT], "not stored"),
        ("openai", [USER, REASONING], "required following item"),
        ("openai", [USER, {"role": "user", "content": [{"type": "output_text", "text": "x"}]}], "Invalid value"),
        ("anthropic", [_assistant(USE)], "first message must use the user role"),
        ("anthropic", [USER, USER], "roles must alternate"),
        ("anthropic", [USER, _assistant(USE)], "without `tool_result`"),
        ("anthropic", [USER, _assistant(USE), USER], "without `tool_result`"),
        ("anthropic", [USER, _assistant(USE, {**USE, "id": "t2"}), _user(ANSWER)], "t2"),
        ("anthropic", [_user(ANSWER)], "unexpected `tool_use_id`"),
        ("anthropic", [USER, _assistant(USE), _user({"type": "text", "text": "x"}, ANSWER)], "must come first"),
        ("anthropic", [_user({"type": "text", "text": " "})], "non-whitespace"),
        ("anthropic", [USER, _assistant({"type": "thinking", "thinking": "a", "signature": ""})], "signature: Field required"),
        ("anthropic", [USER, _assistant({"type": "thinking", "thinking": "b", "signature": seal("a")})], "Invalid `signature`"),
        ("anthropic", [USER, _assistant({**USE, "input": "{}"}), _user(ANSWER)], "valid dictionary"),
        ("chat", [USER, {"role": "tool", "tool_call_id": "c1", "content": "x"}], "preceding message"),
        ("chat", [USER, {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]}], "did not have response"),
    ],
)  # fmt: skip
def test_an_unsound_conversation_is_refused(wire: str, items: list[Any], why: str) -> None:
    with FakeProvider([Reply(text="Yes.")]) as provider:
        status, text = _post(provider, wire, _body(wire, items))

    assert status == 400
    assert why in json.loads(text)["error"]["message"]
    assert [request.outcome for request in provider.requests] == ["refused"]


@pytest.mark.parametrize(
    "more",
    [
        {"store": True},
        {"include": []},
        {"tools": [{}]},
        {"tools": [{}], "parallel_tool_calls": True},
        {"stream": False},
    ],
    ids=str,
)
def test_what_an_agent_that_stores_nothing_must_not_ask_is_refused(more: dict[str, Any]) -> None:
    with FakeProvider([Reply(text="Yes.")]) as provider:
        assert _post(provider, "openai", _body("openai", [USER], **more))[0] == 400


@pytest.mark.parametrize("wire", list(PATHS))
def test_unknown_models_and_wrong_keys_are_refused(wire: str) -> None:
    with FakeProvider([Reply(text="Yes.")]) as provider:
        assert _post(provider, wire, _body(wire, [USER], model="other"))[0] == 404
        assert _post(provider, wire, _body(wire, [USER]), key="wrong")[0] == 401
        assert _post(provider, wire, _body(wire, [USER]))[0] == 200


def test_a_prompt_that_was_answered_twice_is_found() -> None:
    with FakeProvider([Reply(text="Yes."), Reply(text="No."), Reply(text="Yes.")]) as provider:
        for text in ("a", "b", "a"):
            _post(provider, "chat", _body("chat", [{"role": "user", "content": text}]))

        assert [request.number for request in provider.answered_twice()] == [3]


def test_a_prompt_that_was_asked_again_after_a_failure_was_answered_once() -> None:
    with FakeProvider([Reply(text="Yes.", status=500, fault_times=1)]) as provider:
        answers = [_post(provider, "chat", _body("chat", [USER]))[0] for _ in range(2)]

        assert answers == [500, 200]
        assert provider.answered_twice() == []


def test_replies_by_turn_are_the_same_when_a_turn_is_asked_again() -> None:
    with FakeProvider([Reply(text="first"), Reply(text="second")], pick="turn") as provider:
        later = [USER, {"role": "assistant", "content": "first"}, USER]
        texts = [_post(provider, "chat", _body("chat", items))[1] for items in ([USER], later, later, [USER])]

    assert [("first" in text, "second" in text) for text in texts] == [
        (True, False),
        (False, True),
        (False, True),
        (True, False),
    ]


def test_conversations_are_told_apart_by_what_they_begin_with() -> None:
    script = [Reply(text="planned", when="Plan"), Reply(text="built", when="Build"), Reply(text="anything")]
    with FakeProvider(script, pick="turn") as provider:
        texts = [
            _post(provider, "chat", _body("chat", [{"role": "user", "content": text}]))[1]
            for text in ("Build it", "Plan it", "Else")
        ]

    assert ["built" in texts[0], "planned" in texts[1], "anything" in texts[2]] == [True, True, True]


def test_a_function_may_answer() -> None:
    with FakeProvider(lambda asked: Reply(text=f"turn {asked.turn} of {asked.first_text}")) as provider:
        assert "turn 0 " in _post(provider, "chat", _body("chat", [USER]))[1].replace('"}, "finish', "")


def test_what_a_script_raises_reaches_the_test() -> None:
    def broken(_asked: object) -> Reply:
        raise KeyError("my mistake")

    provider = FakeProvider(broken).start()
    with pytest.raises((OSError, urllib.error.URLError)):
        _post(provider, "chat", _body("chat", [USER]))
    with pytest.raises(KeyError, match="my mistake"):
        provider.close()


def test_waiting_for_what_does_not_come_says_what_was_seen() -> None:
    with FakeProvider([Reply(text="Yes.")]) as provider:
        _post(provider, "chat", _body("chat", [USER]))
        with pytest.raises(TimeoutError, match="answered"):
            provider.wait(lambda requests: len(requests) > 5, limit_s=0.05)


def test_it_runs_as_a_program_that_writes_a_log(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps([{"tool_calls": [{"name": "read", "arguments": {"path": "a"}}]}, {"text": "Done."}]))
    command = [
        sys.executable,
        "-m",
        "perdure.testing.providers",
        "--script",
        str(script),
        "--log",
        str(log),
        "--key",
        "k",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        url = program.stdout.readline().decode().strip()
        body = json.dumps(_body("openai", [USER])).encode()
        request = urllib.request.Request(f"{url}/v1/responses", body, {"Authorization": "Bearer k"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=20) as response:
            assert b"response.completed" in response.read()
        program.terminate()

    assert program.returncode == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["event"], line["number"], line["turn"]) for line in lines] == [("received", 1, 0), ("answered", 1, 0)]


@pytest.mark.parametrize("text", ["", "{}", '[{"txt": "typo"}]', '{"pick": "random", "replies": []}'])
def test_a_script_that_cannot_be_used_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)

    with pytest.raises(Refused, match=r"script\.json"):
        load_script(str(path))


def test_calls_get_ids_that_differ() -> None:
    calls = [Call("read"), Call("read")]
    seen: list[Recorded] = []
    with FakeProvider([Reply(tool_calls=calls)]) as provider:
        text = _post(provider, "chat", _body("chat", [USER]))[1]
        seen = provider.requests

    assert len(seen) == 1
    assert "call_1_0" in text
    assert "call_1_1" in text
