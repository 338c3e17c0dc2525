"""What failures mean, and when a turn is asked for again."""

from typing import Any

import pytest

from perdure.llm import failures
from perdure.llm.protocol import ModelError, Usage
from perdure.llm.retry import final_error, next_attempt

NOW = 1_800_000_000.0


def _error(
    status: int, body: Any = None, headers: dict[str, str] | None = None, secrets: tuple[str, ...] = ()
) -> ModelError:
    return failures.from_status("openai", status, headers or {}, body, now_s=NOW, secrets=secrets)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after-ms": "12.5", "retry-after": "9"}, 12),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:10 GMT"}, 10_000),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "99999999999"}, 7 * 24 * 3_600_000),
    ],
)
def test_when_to_come_back(headers: dict[str, str], expected: int | None) -> None:
    assert failures.retry_after(headers, NOW) == expected


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "too many tokens in flight", "type": "x"}}',
        {"type": "error", "error": {"message": "too many tokens in flight"}},
        {"message": "too many tokens in flight", "code": None},
        '{"detail": "too many tokens in flight"}',
        [{"error": {"message": "too many tokens in flight"}}],
        "<html><head><title>too many tokens in flight</title></head><body>" + "x" * 9_999,
        b"too many\ntokens   in flight",
    ],
)
def test_a_message_is_found_in_every_form_of_body(body: Any) -> None:
    assert _error(500, body).message == "openai answered 500: too many tokens in flight"


@pytest.mark.parametrize("body", [None, b"", b"\xff\xfe", {}, {"error": None}, {"error": {"message": None}}, [], 7])
def test_a_body_that_says_nothing_still_makes_an_error(body: Any) -> None:
    assert _error(500, body).message.startswith("openai answered 500: ")


def test_a_quota_is_no_rate_limit_whatever_the_status() -> None:
    assert (
        _error(429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}).error_code
        == "QUOTA"
    )
    assert _error(400, {"error": {"message": "Your credit balance is too low"}}).error_code == "QUOTA"
    assert _error(402).error_code == "QUOTA"


def test_a_rate_limit_that_tells_how_to_buy_more_is_no_quota() -> None:
    message = "Rate limit reached: 3 / min. Add a payment method at https://platform.example/account/billing."

    assert _error(429, {"error": {"code": "rate_limit_exceeded", "message": message}}).error_code == "RATE_LIMIT"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context size",
        "Input exceeds the context window",
    ],
)
def test_a_conversation_that_is_too_long_is_known_by_many_names(message: str) -> None:
    assert _error(400, {"error": {"message": message}}).error_code == "CONTEXT_LENGTH"


def test_a_redirect_names_the_host_and_no_password_or_path() -> None:
    error = _error(302, None, {"location": "https://me:secret@evil.example:8443/take?key=1"})

    assert error.message == "openai answered 302, a redirect to evil.example:8443, which is not followed."


def test_no_secret_and_nothing_like_a_key_is_in_a_message() -> None:
    error = _error(
        401,
        {"error": {"message": "bad key plain-secret-9 or sk-proj-abcdefghijklmnop0123"}},
        secrets=("plain-secret-9",),
    )

    assert error.message == "openai answered 401: bad key [masked] or [masked]"


def test_a_message_is_cut() -> None:
    assert len(_error(500, "a" * 100_000).message) < 600


def test_a_half_surrogate_in_a_message_can_be_printed() -> None:
    assert _error(500, {"error": {"message": "half \ud83d"}}).message.encode()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"type": "overloaded_error"}, "TRANSIENT"),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, "RATE_LIMIT"),
        ({"code": "insufficient_quota"}, "QUOTA"),
        ({"type": "invalid_request_error", "code": "context_length_exceeded"}, "CONTEXT_LENGTH"),
        ({"type": "authentication_error"}, "AUTHENTICATION"),
        ({"code": 503, "message": "no room"}, "TRANSIENT"),
        ("words only", "TRANSIENT"),
        (None, "TRANSIENT"),
    ],
)
def test_an_error_inside_a_stream_has_the_code_that_its_status_would_have(error: Any, code: str) -> None:
    assert failures.from_event("openai", error).error_code == code


def _transient(**more: Any) -> ModelError:
    return ModelError("TRANSIENT", "It broke.", **{"retryable": True, **more})


def test_three_attempts_with_growing_waits() -> None:
    assert [next_attempt(attempt, _transient(), None) for attempt in (1, 2, 3)] == [250, 500, None]


@pytest.mark.parametrize(
    "error", [_transient(retryable=False), _transient(had_output=True), _transient(usage=Usage(input_tokens=1))]
)
def test_what_may_have_been_paid_for_is_not_asked_again(error: ModelError) -> None:
    assert next_attempt(1, error, None) is None
    assert final_error(1, error, 10) is error


def test_the_providers_wish_beats_our_waits() -> None:
    assert next_attempt(1, _transient(retry_after_ms=7_000), 8_000) == 7_000


def test_a_wait_past_the_deadline_fails_now() -> None:
    error = _transient(retry_after_ms=7_000)

    assert next_attempt(1, error, 6_999) is None
    final = final_error(1, error, 6_999)
    assert (final.error_code, final.retry_after_ms) == ("RATE_LIMIT", 7_000)
