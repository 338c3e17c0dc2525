"""The HTTP client that all adapters share: no redirects, no retries, a limit on silence; and what its exceptions mean."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from perdure.llm import failures
from perdure.llm.protocol import ModelError, Usage
from perdure.llm.sse import EventTooLarge
from perdure.llm.text import NotWhole

if TYPE_CHECKING:
    import httpx2

# A model that reasons may be silent for minutes.
IDLE_S = 300.0
CONNECT_S = 30.0
# An error's body is read up to here; a message is never longer.
_ERROR_BYTES = 64 * 1024


class Endpoint(msgspec.Struct, frozen=True):
    """Where a backend is and how it is entered. `base_url` "" is the provider's own; `idle_s` is the longest silence in seconds."""

    backend: str
    base_url: str = ""
    key: str = ""
    idle_s: float = IDLE_S

    def __repr__(self) -> str:
        return f"Endpoint({self.backend!r}, {self.base_url!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be in a message."""
        return (self.key,) if self.key else ()


class Progress:
    """What had come of a turn when it failed."""

    def __init__(self) -> None:
        self.had_output = False
        self.usage: Usage | None = None


def new_client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """A client that goes nowhere else than where it is sent.

    Servers without TLS are near, and a connection to them costs nothing. Small ones close an idle connection just as the next
    request comes, which would be an error; so each request has a connection of its own there.
    """
    import httpx2

    kept = 0 if endpoint.base_url.startswith("http://") else None
    return httpx2.AsyncClient(
        follow_redirects=False,
        limits=httpx2.Limits(max_keepalive_connections=kept),
        timeout=httpx2.Timeout(endpoint.idle_s, connect=min(CONNECT_S, endpoint.idle_s)),
    )


@asynccontextmanager
async def explained(
    endpoint: Endpoint, progress: Progress, sdk_errors: tuple[type[Exception], ...] = ()
) -> AsyncIterator[None]:
    """Turns what the client, or a vendor's library around it, raises into a `ModelError`. Cancellation passes through."""
    import httpx2

    expected: tuple[type[Exception], ...] = (
        NotWhole,
        EventTooLarge,
        httpx2.HTTPError,
        httpx2.StreamError,
        httpx2.InvalidURL,
        *sdk_errors,
    )
    try:
        yield
    except expected as error:
        # A provider may say the key back to us; the cause of an error is printed with it.
        is_safe = not any(secret in str(error) for secret in endpoint.secrets)
        raise _explain(error, endpoint, progress) from (error if is_safe else None)


def _explain(error: Exception, endpoint: Endpoint, progress: Progress) -> ModelError:
    import httpx2

    response = getattr(error, "response", None)
    if isinstance(response, httpx2.Response) and not response.is_success:
        body = getattr(error, "body", None)
        return status_error(endpoint, response.status_code, response.headers, body, progress)
    # A vendor's library wraps what its HTTP client raised.
    cause = error if isinstance(error, httpx2.HTTPError) else error.__cause__
    backend = endpoint.backend
    if isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)):
        why = failures.tidy(str(cause) or type(cause).__name__, endpoint.secrets).rstrip(".")
        return failures.unreachable(backend, host_of(endpoint.base_url) or "its own address", why)
    if isinstance(cause, httpx2.TimeoutException):
        return failures.silent(backend, endpoint.idle_s, had_output=progress.had_output, usage=progress.usage)
    shown = cause if cause is not None else error
    why = failures.tidy(str(shown) or type(shown).__name__, endpoint.secrets).rstrip(".")
    return failures.cut(backend, why, had_output=progress.had_output, usage=progress.usage)


def status_error(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: Any, progress: Progress | None = None
) -> ModelError:
    """The error of an HTTP status."""
    return failures.from_status(
        endpoint.backend,
        status,
        {name.lower(): value for name, value in headers.items()},
        body,
        now_s=time.time(),
        secrets=endpoint.secrets,
        had_output=progress is not None and progress.had_output,
        usage=progress.usage if progress is not None else None,
    )


def check_content(endpoint: Endpoint, headers: Mapping[str, str]) -> None:
    """Raises `ModelError` for a web page, which is what a wrong base URL or a proxy's sign-in answers with."""
    if headers.get("content-type", "").startswith("text/html"):
        text = f"{endpoint.backend} answered with a web page instead of a model's answer."
        raise ModelError("PROVIDER_ERROR", text, hint="Look at the base URL; it often ends with /v1.")


async def error_body(response: httpx2.Response) -> bytes:
    """The beginning of an error's body."""
    found = b""
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) >= _ERROR_BYTES:
            break
    return found[:_ERROR_BYTES]


def host_of(url: str) -> str:
    """Host and port of a URL, without a name and password that may stand in it."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def check_model(endpoint: Endpoint, wanted: str, reported: str) -> None:
    """Raises `ModelError` unless the answer is of the model that was asked for, or of its dated form.

    Providers answer to `gpt-5` as `gpt-5-2025-08-07`, and to `claude-sonnet-4-5` as `claude-sonnet-4-5-20250929`: a snapshot is
    the same model.
    """
    import re

    if reported and reported != wanted and not re.fullmatch(rf"{re.escape(wanted)}-\d{{4}}-?\d\d-?\d\d", reported):
        raise failures.other_model(endpoint.backend, wanted, reported)


def checked_effort(backend: str, given: str, known: Sequence[str]) -> str:
    """The reasoning effort as it was given. Raises `Refused` for a word that this backend does not have; nothing is remapped."""
    if given and given not in known:
        from perdure.base.errors import Refused

        raise Refused(f"{backend} has no reasoning effort {given!r}.", hint=f"One of {', '.join(known)}.")
    return given
