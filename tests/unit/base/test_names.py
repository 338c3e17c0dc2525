"""Names: as file names, and as references that people give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.base.names import BadName, check_plain_name, check_run_reference, file_name, from_file_name

HOSTILE = [
    "a:b",
    "con",
    "x.",
    "é",
    "..",
    "/",
    "\\",
    "🙂",
    "",
    ".hidden",
    "-rf",
    "a" * 300,
    "NUL.txt",
    "a/../b",
    "a\0b",
    "%41",
    "A b",
]


@pytest.mark.parametrize("name", ["plan", "Decide", "fix-42_a.b", "implement"])
def test_plain_names_stay_themselves(name: str) -> None:
    assert file_name(name) == name


def test_hostile_names_become_distinct_harmless_file_names() -> None:
    names = [file_name(name) for name in HOSTILE]

    assert len(set(names)) == len(HOSTILE)
    for name in names:
        assert name not in ("", ".", "..")
        assert not set(name) & set('/\\:*?"<>|\0 ')
        assert not name.endswith(".")
        assert len(name.encode()) <= 255
        assert name.split(".")[0].lower() not in ("con", "nul")


@given(st.text(max_size=60))
def test_a_name_comes_back_from_its_file_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    encoded = file_name(name)
    if "%~" not in encoded:
        assert from_file_name(encoded) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b"])
def test_what_is_no_plain_name_is_refused_with_its_text(name: str) -> None:
    with pytest.raises(BadName, match="must be a plain name"):
        check_plain_name(name, "state key")


@pytest.mark.parametrize("text", ["", ".", "..", "../x", "a/b", "x" * 300, "a\nb", "a\0b", "-f", "\x1b[2J"])
def test_what_can_name_no_run_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        check_run_reference(text)
