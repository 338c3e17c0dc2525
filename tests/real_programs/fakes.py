"""A model on loopback for real coding-agent programs: it answers as it was told, in the two wire formats that they speak.

`POST /v1/messages` and `POST /v1/responses`, both streamed. A request without tools is one of the program's own small errands (a title,
a summary): it gets a fixed answer and is not counted as a turn.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self, cast


class Say(NamedTuple):
    """The model ends its turn with a text."""

    text: str


class Call(NamedTuple):
    """The model wants a tool."""

    tool: str
    arguments: dict[str, Any]


class Hang(NamedTuple):
    """The model is silent until the fake is closed; `FakeModel.hanging` says that a request has come so far."""


class Fail(NamedTuple):
    """The provider refuses."""

    status: int
    message: str


Reply = Say | Call | Hang | Fail
Event = tuple[str, dict[str, Any]]


class FakeModel:
    """Answers turn after turn from `replies`; `turns` are the bodies of the requests, `headers` what came with them."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = list(replies)
        self.turns: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.hanging = threading.Event()
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = False
        self._server.fake = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        """The reply to a request."""
        if not body.get("tools"):
            return Say("fine")
        with self._lock:
            self.turns.append(body)
            self.headers.append(headers)
            return self.replies.pop(0) if self.replies else Fail(400, "the fake has no more replies")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self._plain(200, {})

    def do_GET(self) -> None:
        self._plain(404, {"error": {"type": "not_found_error", "message": "not here"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        fake = cast("FakeModel", self.server.fake)  # type: ignore[attr-defined]
        if path not in ("/v1/messages", "/v1/responses"):
            self._plain(404, {"error": {"type": "not_found_error", "message": "not here"}})
            return
        reply = fake.take(body, dict(self.headers))
        if isinstance(reply, Fail):
            self._plain(reply.status, {"type": "error", "error": {"type": "api_error", "message": reply.message}})
        elif isinstance(reply, Hang):
            self._begin()
            fake.hanging.set()
            fake.closed.wait()
            self.close_connection = True
        else:
            number = len(fake.turns)
            events = _messages(reply, number) if path == "/v1/messages" else _responses(reply, number)
            self._stream(events)

    def _plain(self, status: int, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.flush()

    def _stream(self, events: Iterator[Event]) -> None:
        self._begin()
        try:
            for name, value in events:
                self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name} | value)}\n\n".encode())
        except OSError:
            pass  # the program has gone
        self.close_connection = True


def _messages(reply: Say | Call, number: int) -> Iterator[Event]:
    usage = {"input_tokens": 100 + number, "output_tokens": 1, "cache_read_input_tokens": 7}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "fake-1", "content": []}
    yield "message_start", {"message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}}
    if isinstance(reply, Say):
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": reply.text}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": reply.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    stop = "end_turn" if isinstance(reply, Say) else "tool_use"
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 9}}
    yield "message_stop", {}


def _responses(reply: Say | Call, number: int) -> Iterator[Event]:
    response = {"id": f"resp_{number}", "object": "response", "status": "in_progress", "output": []}
    yield "response.created", {"response": response}
    if isinstance(reply, Say):
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    else:
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": reply.tool,
            "arguments": json.dumps(reply.arguments),
        }
    yield "response.output_item.done", {"output_index": 0, "item": item | {"status": "completed"}}
    usage = {
        "input_tokens": 100 + number,
        "input_tokens_details": {"cached_tokens": 7},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 109 + number,
    }
    yield "response.completed", {"response": response | {"status": "completed", "usage": usage}}
