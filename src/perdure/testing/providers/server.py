"""The fake provider itself: an HTTP server on a free port of loopback, one thread a connection."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from http.server import ThreadingHTTPServer
from typing import Any, Self

from perdure.testing.providers.handling import Handler
from perdure.testing.providers.record import Log, Recorded
from perdure.testing.providers.script import Pick, Replies, Script

MODELS = ("fake-model", "fake-small")
KEY = "fake-key-0123456789"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Clients that were killed leave half-open connections; ending must not wait for their threads.
    block_on_close = False

    def __init__(self, handler: type[Handler], port: int) -> None:
        self.defects: list[BaseException] = []
        super().__init__(("127.0.0.1", port), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is what tests do; anything else is a defect, of a script perhaps."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.defects.append(error)


class FakeProvider:
    """A provider that answers by a script, and remembers. Use it as a context manager, or call `start` and `close`.

    `script` is a list of replies, or a function of what was asked; `pick` says how the list is used. `models` are the ones that it
    has; `key` must be sent, "" asks for none. `log_path` is a file that gets a line for each request and each end of one.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        pick: Pick = "order",
        models: Sequence[str] = MODELS,
        key: str = KEY,
        log_path: str | None = None,
        port: int = 0,
    ) -> None:
        self.models = tuple(models)
        self.key = key
        self.replies = Replies(script, pick)
        self.log = Log(log_path)
        self.closing = threading.Event()
        provider = self

        class Bound(Handler):
            def __init__(self, *arguments: Any) -> None:
                self.provider = provider
                super().__init__(*arguments)

        self._server = _Server(Bound, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its root; the base URL of Anthropic's library."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def anthropic_url(self) -> str:
        """For `ANTHROPIC_BASE_URL`."""
        return self.url

    @property
    def openai_url(self) -> str:
        """For `OPENAI_BASE_URL` and `PERDURE_BASE_URL`."""
        return f"{self.url}/v1"

    @property
    def environ(self) -> dict[str, str]:
        """What a program needs in its environment to talk to this instead of the real ones."""
        return {
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": self.key,
            "ANTHROPIC_BASE_URL": self.anthropic_url,
            "ANTHROPIC_API_KEY": self.key,
            "PERDURE_BASE_URL": self.openai_url,
            "PERDURE_API_KEY": self.key,
            "NO_PROXY": "127.0.0.1",
        }

    @property
    def requests(self) -> list[Recorded]:
        """All that was asked of models, in order."""
        return [request for request in self.log.requests if request.method == "POST"]

    def counts(self) -> dict[str, int]:
        """How often each prompt was asked, by its digest, answered or not."""
        return self.log.counts()

    def answered_twice(self) -> list[Recorded]:
        """Requests whose very prompt had been answered in full before: empty when nothing was paid for twice."""
        return self.log.answered_twice()

    def wait(self, is_true: Callable[[list[Recorded]], bool], limit_s: float = 20.0) -> None:
        """Waits until something is true of the requests. Raises `TimeoutError`."""
        if not self.log.wait(is_true, limit_s):
            seen = [(request.number, request.turn, request.outcome, request.refusal) for request in self.log.requests]
            raise TimeoutError(f"It did not become true in {limit_s:g} s. Seen: {seen}.")

    def start(self) -> FakeProvider:
        """Listen; it is ready when this returns."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End what hangs, and stop. Raises what a script, or the provider itself, raised while it answered."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.log.close()
        if self._server.defects:
            raise self._server.defects[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
