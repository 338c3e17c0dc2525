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


@given(st.text(max_size=60), st.booleans())
def test_a_name_comes_back_from_its_file_name(name: str, is_case_blind: bool) -> None:
    encoded = file_name(name, is_case_blind=is_case_blind)
    if "%~" not in encoded:
        assert from_file_name(encoded) == name


@given(st.text(max_size=12), st.text(max_size=12))
def test_two_names_are_two_files_on_a_disk_that_is_blind_to_case(one: str, other: str) -> None:
    names = [file_name(name, is_case_blind=True).lower() for name in (one, other)]
    assert (names[0] == names[1]) == (one == other)


def test_two_spellings_of_one_sign_are_two_files() -> None:
    assert file_name("caf\u00e9") != file_name("cafe\u0301")


def test_capitals_are_two_files_where_the_caller_says_that_the_disk_is_blind_to_case() -> None:
    assert file_name("Build", is_case_blind=True) == "%42uild"
    assert file_name("build", is_case_blind=True) == "build"


@pytest.mark.parametrize("text", ["con", "a b", "%zz", "%FF", "%4", "a.", ".hidden", "%61", "", "%~", "a%~0"])
def test_a_file_name_that_is_of_no_id_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        from_file_name(text)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b"])
def test_what_is_no_plain_name_is_refused_with_its_text(name: str) -> None:
    with pytest.raises(BadName, match="must be a plain name"):
        check_plain_name(name, "state key")


@pytest.mark.parametrize(
    "text", ["", ".", "..", "../x", "a/b", "x" * 300, "a\nb", "a\0b", "-f", "\x1b[2J", "CON", "nul.txt"]
)
def test_what_can_name_no_run_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        check_run_reference(text)
