"""One connection to the fake provider: checks what came, and sends what the script says, faults included."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Collection, Iterator
from http.server import BaseHTTPRequestHandler
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from perdure.testing.providers import chat, messages, responses
from perdure.testing.providers.record import Recorded, digest
from perdure.testing.providers.script import Asked, Reply
from perdure.testing.providers.seals import Wrong

if TYPE_CHECKING:
    from perdure.testing.providers.server import FakeProvider

_WIRES: dict[str, ModuleType] = {
    "/v1/responses": responses,
    "/v1/messages": messages,
    "/v1/chat/completions": chat,
}
_LOOK_S = 0.02
_DRIP_MS = 20


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other of one connection."""

    protocol_version = "HTTP/1.1"
    # Small writes follow each other; waiting to join them would cost 40 ms each.
    disable_nagle_algorithm = True
    provider: FakeProvider

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the log of requests has it all."""

    def do_GET(self) -> None:
        """The list of models, in pages when they are asked for as Anthropic does."""
        url = urlsplit(self.path)
        request = self.provider.log.begin("GET", url.path, self._headers(), {}, 0)
        try:
            self._check_key()
            require_path(url.path, ("/v1/models",))
            query = {key: values[-1] for key, values in parse_qs(url.query).items()}
            self._send_json(200, self._page(query) if "anthropic-version" in self.headers else self._list())
        except Wrong as wrong:
            self._refuse(request, wrong)
        self.provider.log.end(request, "answered")

    def do_POST(self) -> None:
        """One turn."""
        path = urlsplit(self.path).path
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(content)
        except ValueError:
            body = {}
        wire = _WIRES.get(path)
        turn, first = wire.turns(body) if wire is not None else (0, "")
        request = self.provider.log.begin("POST", path, self._headers(), body, turn)
        try:
            self._check_key()
            require_path(path, _WIRES)
            assert wire is not None
            reply = self._reply(wire, request, body, first)
        except Wrong as wrong:
            self._refuse(request, wrong)
            return
        try:
            self._answer(wire, request, reply)
        except OSError:
            self.close_connection = True
            self.provider.log.end(request, "gone")

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _check_key(self) -> None:
        sent = self.headers.get("x-api-key") or (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if self.provider.key and sent != self.provider.key:
            raise Wrong(f"Incorrect API key provided: {sent}.", 401, "authentication_error")

    def _reply(self, wire: ModuleType, request: Recorded, body: dict[str, Any], first: str) -> Reply:
        model = str(body.get("model"))
        if model not in self.provider.models:
            raise Wrong(f"The model `{model}` does not exist.", 404, "model_not_found")
        wire.check(body)
        asked = Asked(request.number, request.turn, first, request.path, body)
        reply = self.provider.replies.choose(asked, digest(request.path, body))
        if reply is None:
            raise Wrong(f"The script has no reply for turn {request.turn}.")
        return reply

    def _refuse(self, request: Recorded, wrong: Wrong) -> None:
        self._send_json(wrong.status, self._error({"type": wrong.kind, "code": wrong.kind, "message": wrong.why}))
        self.provider.log.end(request, "refused", wrong.why)

    def _error(self, error: dict[str, Any]) -> dict[str, Any]:
        return {"type": "error", "error": error} if "anthropic-version" in self.headers else {"error": error}

    def _answer(self, wire: ModuleType, request: Recorded, reply: Reply) -> None:
        if reply.status or reply.fault == "status":
            error = reply.error or {"type": "scripted_error", "message": f"Scripted status {reply.status}."}
            self._send_json(reply.status or 500, self._error(error), reply.headers)
            self.provider.log.end(request, "failed")
        elif reply.fault == "redirect":
            self._send_json(307, {}, {"Location": reply.location})
            self.provider.log.end(request, "broken")
        elif reply.fault == "page":
            self._send(200, b"<html><title>Sign in</title></html>", {"Content-Type": "text/html; charset=utf-8"})
            self.provider.log.end(request, "broken")
        elif reply.fault == "silent":
            self._hang(request)
        else:
            self._stream(wire, request, reply)

    def _stream(self, wire: ModuleType, request: Recorded, reply: Reply) -> None:
        model = "somebody-else" if reply.fault == "wrong_model" else reply.model or str(request.body.get("model"))
        frames = [] if reply.fault == "empty" else list(_frames(wire.events(reply, model, request.number)))
        if reply.fault == "bad_utf8":
            frames = [frame.replace(b"\\ufffd", b"\xff") for frame in frames]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        half = max(1, (2 * len(frames)) // 3)
        if reply.fault in ("hang", "cut", "cut_clean", "early_end"):
            self._send_frames(request, frames[:half], reply)
            self._break(request, frames[half : half + 1], reply.fault)
            return
        self._send_frames(request, frames, reply)
        # Said before the last byte: whoever reads that byte may look here at once.
        self.provider.log.end(request, "answered" if reply.fault in ("", "drip", "bad_utf8", "refused") else "broken")
        self.wfile.write(b"0\r\n\r\n")

    def _send_frames(self, request: Recorded, frames: list[bytes], reply: Reply) -> None:
        pause_s = (reply.pause_ms or (_DRIP_MS if reply.fault == "drip" else 0)) / 1000
        for frame in frames:
            if pause_s and self._is_gone(pause_s):
                raise BrokenPipeError
            self._chunk(frame)
            self.provider.log.sent(request)

    def _break(self, request: Recorded, following: list[bytes], fault: str) -> None:
        if fault == "hang":
            self._hang(request)
            return
        if fault != "early_end":
            for frame in following:
                self._chunk(frame[: len(frame) // 2])
        self.provider.log.end(request, "broken")
        if fault != "cut":
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _hang(self, request: Recorded) -> None:
        """Says nothing until the client goes, or the server ends."""
        while not self._is_gone(_LOOK_S):
            if self.provider.closing.is_set():
                self.provider.log.end(request, "broken")
                self.close_connection = True
                return
        raise BrokenPipeError

    def _is_gone(self, wait_s: float) -> bool:
        """Whether the client closes the connection within a time."""
        end = time.monotonic() + wait_s
        while True:
            left = end - time.monotonic()
            readable, _, _ = select.select([self.connection], [], [], max(0.0, min(left, _LOOK_S)))
            if readable:
                try:
                    return not self.connection.recv(1, socket.MSG_PEEK)
                except OSError:
                    return True
            if left <= _LOOK_S or self.provider.closing.is_set():
                return False

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        self.wfile.flush()

    def _send_json(self, status: int, value: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(content)

    def _list(self) -> dict[str, Any]:
        rows = [{"id": name, "object": "model", "created": 1, "owned_by": "fake"} for name in self.provider.models]
        return {"object": "list", "data": rows}

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        """Two models a page, however many are asked for, so that clients must turn pages."""
        names = self.provider.models
        start = names.index(query["after_id"]) + 1 if query.get("after_id") in names else 0
        page = names[start : start + 2]
        rows = [
            {"type": "model", "id": name, "display_name": _title(name), "created_at": "2026-01-01T00:00:00Z"}
            for name in page
        ]
        more = start + 2 < len(names)
        return {
            "data": rows,
            "has_more": more,
            "first_id": page[0] if page else None,
            "last_id": page[-1] if page else None,
        }


def require_path(path: str, known: Collection[str]) -> None:
    """Raises `Wrong` when there is nothing at a path."""
    if path not in known:
        raise Wrong(f"No such path {path}.", 404, "not_found_error")


def _title(name: str) -> str:
    return name.replace("-", " ").title()


def _frames(events: Iterator[responses.Event]) -> Iterator[bytes]:
    """Events as bytes of the stream. JSON escapes keep half surrogate pairs as real servers send them."""
    for name, value in events:
        text = value if isinstance(value, str) else json.dumps(value)
        yield ((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode()
