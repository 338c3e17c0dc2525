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
    }
    assert sorted(secrets_of(environ)) == ["aaaaaaaa", "bbbbbbbb", "cccccccc"]


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_a_secret_is_found_plain_as_json_in_a_url_and_in_base64(before: str) -> None:
    masker = Masker([SECRET])
    for text in (SECRET, json.dumps(SECRET), "hush%22hush%2F0123456789%2Bx"):
        assert MASK in masker.mask(text.encode())
    coded = masker.mask(base64.b64encode((before + SECRET + "tail").encode()))
    assert MASK in coded


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
