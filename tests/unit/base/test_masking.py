"""Secrets are replaced in whatever form, however the text is cut."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.base.masking import MASK, Masker, secrets_of

SECRET = 'hush"hush/0123456789+x'


def test_secrets_are_known_by_their_names() -> None:
    environ = {
        "OPENAI_API_KEY": "aaaaaaaa",
        "MY_SECRET": "bbbbbbbb",
        "PATH": "/usr/bin",
        "X_TOKEN": "short",
        "PASSWORD": "cccccccc",
        "AWS_SECRET_ACCESS_KEY": "dddddddd",
        "SSH_PRIVATE_KEY": "eeeeeeee",
        "KEYBOARD": "ffffffff",
    }
    assert sorted(secrets_of(environ)) == ["aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd", "eeeeeeee"]


def test_nothing_to_mask_is_false() -> None:
    assert not secrets_of({"PATH": "/usr/bin", "X_TOKEN": "short"})


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_a_secret_is_found_plain_as_json_in_a_url_and_in_base64(before: str) -> None:
    masker = Masker([SECRET])
    for text in (SECRET, json.dumps(SECRET), "hush%22hush%2F0123456789%2Bx"):
        assert MASK in masker.mask(text.encode())
    coded = masker.mask(base64.b64encode((before + SECRET + "tail").encode()))
    assert MASK in coded


@pytest.mark.parametrize("text", ["a+b%2Fc%3Fpass", "a%20b%2Fc%3Fpass", "a%20b%2fc%3fpass", "a%20b/c%3Fpass"])
def test_a_secret_is_found_however_a_url_writes_it(text: str) -> None:
    assert Masker(["a b/c?pass"]).mask(f"?q={text}&".encode()) == b"?q=[masked]&"


@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_secret_with_signs_of_other_scripts_is_found_in_json(is_ascii: bool) -> None:
    text = json.dumps("p\u00e4ssw\u00f6rt-\U0001f511", ensure_ascii=is_ascii).encode()
    assert Masker(["p\u00e4ssw\u00f6rt-\U0001f511"]).mask(text) == b'"[masked]"'


def test_a_secret_that_was_read_with_its_line_end_is_found_without_it() -> None:
    assert Masker(["one-line-secret\n"]).mask(b"token one-line-secret end") == b"token [masked] end"


def test_of_secrets_that_overlap_nothing_stays() -> None:
    assert Masker(["abcdefghi", "ghijklmno"]).mask(b"<abcdefghijklmno>") == b"<[masked]>"


@pytest.mark.parametrize(
    "text",
    [
        b"task-management-system-overview",
        b"risk-assessment-of-2026-01-02-for-us",
        b"task-550e8400e29b41d4a716446655440000",
        b"sk-a-name-that-is-made-of-many-words",
    ],
)
def test_words_that_look_like_a_key_are_left(text: bytes) -> None:
    assert Masker([]).mask(text) == text


@pytest.mark.parametrize("before", [b"", b"=", b'"', b"\n", b"\\n", b"\x1b[32m", b"\x1b[m", b"_"])
def test_a_key_is_found_after_what_may_stand_before_a_word(before: bytes) -> None:
    assert Masker([]).mask(before + b"sk-" + b"0af1" * 8) == before + MASK


# JSON stays JSON


@pytest.mark.parametrize("secret", ["176456", "status", '","ts":', "result", "[masked]"])
def test_a_document_stays_one_whatever_the_secret_is(secret: str) -> None:
    document = {"status": "done", "ts": 1764561234567, "result": {"text": f"it is {secret}.", "n": 1.5}}
    masked = json.loads(Masker([secret]).mask(json.dumps(document).encode()))

    assert masked == {"status": "done", "ts": 1764561234567, "result": {"text": "it is [masked].", "n": 1.5}}


def test_a_number_that_is_the_secret_is_masked() -> None:
    assert Masker(["123456"]).mask(b'{"pin":123456,"n":1234567}') == b'{"pin":"[masked]","n":1234567}'


def test_a_key_with_a_secret_is_masked() -> None:
    assert Masker(["hush-0123"]).mask(b'{"of hush-0123":1}') == b'{"of [masked]":1}'


def test_a_secret_in_json_inside_json_is_masked() -> None:
    inner = json.dumps({"a": SECRET})
    assert b"hush" not in Masker([SECRET]).mask(json.dumps({"text": inner}).encode())


# Pieces


def test_well_known_keys_are_masked_without_being_named() -> None:
    masker = Masker([])
    for key in ("sk-proj-" + "a1" * 15, "ghp_" + "A1" * 18, "AKIA" + "A1B2" * 4):
        assert masker.mask(f"key={key};".encode()) == b"key=[masked];"
    assert masker.mask(b"nothing here, not even sk-short") == b"nothing here, not even sk-short"


@given(st.lists(st.integers(0, 60), max_size=12), st.binary(max_size=50), st.binary(max_size=50))
def test_a_secret_that_is_cut_anywhere_is_masked_all_the_same(cuts: list[int], before: bytes, after: bytes) -> None:
    text = before + b"hush-hush-0123456789" + after
    stream = Masker(["hush-hush-0123456789"]).stream()
    out, at = b"", 0
    for cut in sorted(cuts):
        out += stream.feed(text[at:cut]) if cut > at else b""
        at = max(at, cut)
    out += stream.feed(text[at:]) + stream.close()

    assert out == before + MASK + after or b"hush-hush-0123456789" not in out
    assert out.startswith(before)


_WORDS = st.sampled_from(
    [
        b"aaaaaa",
        b"a",
        b"abcdefghi",
        b"ghijklmno",
        b"sk-",
        b"sk-" + b"a1" * 12,
        b"-",
        b" ",
        b"\\n",
        b"\x1b[1m",
        b"x" * 150,
    ]
)


@given(st.lists(_WORDS, max_size=12), st.lists(st.integers(1, 200), max_size=20))
def test_pieces_come_out_as_the_whole_does(words: list[bytes], sizes: list[int]) -> None:
    text = b"".join(words)
    masker = Masker(["aaaaaa", "abcdefghi", "ghijklmno"])
    stream = masker.stream()
    out, at = b"", 0
    for size in sizes:
        out += stream.feed(text[at : at + size])
        at += size

    assert out + stream.feed(text[at:]) + stream.close() == masker.mask(text)


def test_a_stream_holds_back_no_more_than_the_longest_secret() -> None:
    masker = Masker(["aaaaaa"])
    stream = masker.stream()
    for _ in range(100):
        stream.feed(b"a" * 1_000)

    assert len(stream._held) <= masker.longest + 10
