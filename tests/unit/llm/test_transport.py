"""The HTTP client that the adapters share."""

import asyncio

from perdure.llm.openai_chat import ChatModel
from perdure.llm.protocol import Message, ModelRequest
from perdure.llm.transport import Endpoint

ANSWER = b'{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n"


async def _answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that promises to keep the connection, and closes it when the next request comes."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.split(b":")[1]))
    writer.write(HEAD % len(ANSWER) + ANSWER)
    await writer.drain()
    await reader.read(1)
    writer.close()
    await writer.wait_closed()


def test_a_near_server_that_closes_idle_connections_costs_no_turn() -> None:
    async def texts() -> list[str]:
        serving: list[asyncio.Task[None]] = []
        server = await asyncio.start_server(
            lambda reader, writer: serving.append(asyncio.ensure_future(_answer_once(reader, writer))), "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        model = ChatModel(Endpoint("openai-compatible", f"http://127.0.0.1:{port}/v1", "", 5.0))
        request = ModelRequest("any", (Message("user", "Name the capital of France."),))
        try:
            return [(await model.turn(request, lambda *_: None)).message.text for _ in range(3)]
        finally:
            await model.close()
            server.close()
            await asyncio.gather(*serving)

    assert asyncio.run(texts()) == ["Paris", "Paris", "Paris"]
