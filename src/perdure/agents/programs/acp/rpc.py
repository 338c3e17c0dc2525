"""JSON-RPC 2.0 with a program, one message a line, both sides asking."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from perdure.sandbox.interactive import Pipes

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
AUTH_REQUIRED = -32000


class RpcError(Exception):
    """The other side answered a request with an error, or is to get one."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number
        self.message = message


class ConnectionOver(Exception):
    """The other side has gone, so no answer will come."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class _Failure(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Message(msgspec.Struct):
    method: str | None = None
    id: int | str | None = None
    params: dict[str, Any] | None = None
    result: Any = None
    error: _Failure | None = None


class Handler(Protocol):
    """Answers the other side."""

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a request. Raises `RpcError`."""

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """A notification."""


class Peer:
    """The other side of the connection."""

    def __init__(self, pipes: Pipes, handler: Handler) -> None:
        self._pipes = pipes
        self._handler = handler
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._is_over = False

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request; what is no object counts as an empty one. Raises `RpcError`, `ConnectionOver`."""
        if self._is_over:
            raise ConnectionOver(f"The program ended before {method}.")
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        await self._pipes.send(_line({"id": number, "method": method, "params": params}))
        try:
            found = await future
        finally:
            self._waiting.pop(number, None)
        return found if isinstance(found, dict) else {}

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell something that has no answer; never waits."""
        self._pipes.write(_line({"method": method, "params": params}))

    async def serve(self) -> None:
        """Read until the program says no more. A line that is no message is something else that it printed."""
        while (line := await self._pipes.line()) is not None:
            try:
                message = msgspec.json.decode(line.decode("utf-8", "replace"), type=_Message)
            except (msgspec.DecodeError, RecursionError):
                continue
            if message.method is None:
                self._answered(message)
            elif message.id is None:
                self._handler.hear(message.method, message.params or {})
            else:
                await self._pipes.send(_line({"id": message.id} | self._answer(message.method, message.params or {})))
        self._is_over = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionOver("The program ended before it answered."))

    def _answered(self, message: _Message) -> None:
        future = self._waiting.get(message.id) if isinstance(message.id, int) else None
        if future is None or future.done():
            return
        if message.error is not None:
            future.set_exception(RpcError(message.error.code, message.error.message))
        else:
            future.set_result(message.result)

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": self._handler.answer(method, params)}
        except RpcError as error:
            return {"error": {"code": error.number, "message": error.message}}


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0"} | message) + b"\n"
