"""What a provider's or a connection's failure means: from a status, headers and a body to a `ModelError`. Pure.

The message is the provider's own, on one line, cut, and without keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from perdure.llm.protocol import ErrorCode, ModelError, Usage
from perdure.llm.text import NotWhole, clean, parse

_LONGEST = 500
_LONGEST_WAIT_MS = 7 * 24 * 3_600_000
_RETRYABLE = frozenset({"RATE_LIMIT", "TRANSIENT", "TIMEOUT"})
_QUOTA = re.compile(r"insufficient_quota|billing_|credit balance|quota.{0,40}exceeded|exceeded.{0,40}current quota")
_CONTEXT = re.compile(
    r"context_length|context length|context window|context size|maximum context|prompt is too long|too many tokens"
    r"|input is too long|exceeds? the (available )?context|request_too_large|string_above_max_length"
)
_REFUSED = re.compile(r"content_policy|content_filter|content management policy|invalid_prompt|safety system")
# What providers call an error inside a stream, where there is no status, as the status that it would have had.
_STATUS_OF = {
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "internal_error": 500,
    "timeout_error": 504,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "insufficient_quota": 429,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "request_too_large": 413,
    "vector_store_timeout": 500,
}


class Said(str):
    """What a provider said about its failure: the text is for people, `words` for deciding."""

    __slots__ = ("words",)
    words: str

    def __new__(cls, text: str, words: str) -> Self:
        made = super().__new__(cls, text)
        made.words = words
        return made


def from_status(
    backend: str,
    status: int,
    headers: Mapping[str, str],
    body: Any,
    *,
    now_s: float,
    secrets: Sequence[str] = (),
    had_output: bool = False,
    usage: Usage | None = None,
) -> ModelError:
    """The error of an answer that is none. `headers` by names in small letters; `body` is the parsed JSON, or text."""
    if 300 <= status < 400:
        host = re.sub(r"^[a-z]+://(?:[^/@]*@)?([^/?#]*).*$", r"\1", headers.get("location", "")) or "somewhere"
        text = f"{backend} answered {status}, a redirect to {tidy(host, secrets)}, which is not followed."
        return ModelError("PROVIDER_ERROR", text, hint="Set the base URL to where the provider really is.")
    said = read_body(body, secrets)
    code = _code(status, said.words)
    return ModelError(
        code,
        f"{backend} answered {status}: {said or 'nothing more'}",
        retryable=code in _RETRYABLE,
        retry_after_ms=retry_after(headers, now_s) if code in _RETRYABLE else None,
        had_output=had_output,
        usage=usage,
        hint=_hint(backend, code, status),
    )


def from_event(
    backend: str, error: Any, *, secrets: Sequence[str] = (), had_output: bool = False, usage: Usage | None = None
) -> ModelError:
    """The error that a provider sent inside a stream."""
    said = read_body({"error": error}, secrets)
    inner = error if isinstance(error, dict) else {}
    status = 0
    for word in (inner.get("code"), inner.get("type")):
        if isinstance(word, int) and not isinstance(word, bool):
            status = status or word
        status = status or _STATUS_OF.get(str(word), 0)
    code = _code(status or 500, said.words)
    return ModelError(
        code,
        f"{backend} broke off: {said or 'it did not say why'}",
        retryable=code in _RETRYABLE,
        had_output=had_output,
        usage=usage,
        hint=_hint(backend, code, status),
    )


def cut(backend: str, why: str, *, had_output: bool = False, usage: Usage | None = None) -> ModelError:
    """The error of an answer whose end never came."""
    text = f"The answer of {backend} was cut: {why}."
    return ModelError("TRANSIENT", text, retryable=True, had_output=had_output, usage=usage)


def unreachable(backend: str, host: str, why: str) -> ModelError:
    """The error of a connection that was not made."""
    text = f"{backend} cannot be reached at {host}: {why}."
    return ModelError("TRANSIENT", text, retryable=True, hint="Look at the network, and at the base URL.")


def silent(backend: str, seconds: float, *, had_output: bool = False, usage: Usage | None = None) -> ModelError:
    """The error of a provider that stopped talking."""
    text = f"{backend} sent nothing for {seconds:g} s."
    return ModelError("TIMEOUT", text, retryable=True, had_output=had_output, usage=usage)


def incomplete(backend: str, reason: str, *, had_output: bool = True, usage: Usage | None = None) -> ModelError:
    """The error of an answer that the provider itself ended early: whatever it held, it is not whole."""
    if reason in ("max_output_tokens", "max_tokens", "length"):
        text, hint = f"The answer of {backend} was cut at its limit of output tokens.", "Raise max_output_tokens."
        return ModelError("PROVIDER_ERROR", text, had_output=had_output, usage=usage, hint=hint)
    if reason in ("content_filter", "refusal"):
        text = f"{backend} withheld the answer: {reason}."
        return ModelError("REFUSED", text, had_output=had_output, usage=usage)
    if reason == "model_context_window_exceeded":
        text = f"The conversation has no room left in the context window of the model at {backend}."
        return ModelError("CONTEXT_LENGTH", text, had_output=had_output, usage=usage)
    text = f"{backend} did not finish its answer: {reason or 'it did not say why'}."
    return ModelError("PROVIDER_ERROR", text, had_output=had_output, usage=usage)


def other_model(backend: str, wanted: str, reported: str) -> ModelError:
    """The error of an answer from a model that nobody asked for."""
    text = f"{backend} was asked for the model {wanted!r}, and {tidy(reported, ())!r} answered."
    return ModelError("PROVIDER_ERROR", text, hint=f"Name one that `perdure models {backend}` lists.")


def read_body(body: Any, secrets: Sequence[str]) -> Said:
    """What an error's body says, in any of the forms that servers use."""
    if isinstance(body, (bytes, bytearray)):
        body = bytes(body).decode("utf-8", "replace")
    if isinstance(body, str):
        try:
            body = parse(body)
        except NotWhole:
            return Said(tidy(_no_page(body), secrets), body[:2_000].lower())
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return Said("", "")
    inner = body.get("error") or body.get("detail") or body
    if not isinstance(inner, dict):
        inner = {"message": inner}
    message = str(inner.get("message") or inner.get("msg") or "")
    names = [str(inner[key]) for key in ("type", "code") if inner.get(key) not in (None, "")]
    text = message or " ".join(names)
    return Said(tidy(text, secrets), " ".join([*names, message]).lower())


def tidy(text: str, secrets: Sequence[str]) -> str:
    """The text on one line, not too long, without the secrets and without anything that looks like a key."""
    from perdure.base.masking import Masker

    text = str(clean(text))[: _LONGEST * 4]
    masked = Masker(secrets).mask(" ".join(text.split()).encode()).decode("utf-8", "replace")
    return masked if len(masked) <= _LONGEST else f"{masked[: _LONGEST - 1]}…"


def retry_after(headers: Mapping[str, str], now_s: float) -> int | None:
    """When the provider says to come back, in milliseconds from now; None when it does not say."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return min(int(exact), _LONGEST_WAIT_MS)
    named = headers.get("retry-after")
    seconds = _number(named)
    if seconds is None and named:
        from email.utils import parsedate_to_datetime

        try:
            seconds = max(0.0, parsedate_to_datetime(named).timestamp() - now_s)
        except (ValueError, OverflowError):
            return None
    return None if seconds is None else min(int(seconds * 1000), _LONGEST_WAIT_MS)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _code(status: int, words: str) -> ErrorCode:
    if status in (401, 403):
        return "AUTHENTICATION"
    if status == 402 or (status in (400, 429) and _QUOTA.search(words)):
        return "QUOTA"
    if status == 429:
        return "RATE_LIMIT"
    if status == 413 or (400 <= status < 500 and _CONTEXT.search(words)):
        return "CONTEXT_LENGTH"
    if 400 <= status < 500 and _REFUSED.search(words):
        return "REFUSED"
    if status in (408, 409, 425) or status >= 500:
        return "TRANSIENT"
    return "PROVIDER_ERROR"


def _hint(backend: str, code: ErrorCode, status: int) -> str:
    if code == "AUTHENTICATION":
        from perdure.llm.keys import ways

        return f"Give a key that is allowed to: {ways(backend)}."
    if code == "QUOTA":
        return "The account has no credit left; look at the provider's billing page."
    return f"`perdure models {backend}` lists what there is." if status == 404 else ""


def _no_page(text: str) -> str:
    """A proxy's error page without its markup."""
    if "<" not in text[:200]:
        return text
    title = re.search(r"<title[^>]*>(.*?)</title>", text[:20_000], re.IGNORECASE | re.DOTALL)
    return title[1] if title else re.sub(r"<[^>]*>", " ", text[:20_000])
