"""Where keys come from, and from where they are not taken."""

import os
from pathlib import Path

import pytest

from perdure.base.errors import Refused
from perdure.disk.home import StateHome
from perdure.llm.keys import KeyMissing, UnsafeKeyFile, find_key, known_keys, need_key
from perdure.llm.registry import Choice, find_model, parse_choice


@pytest.fixture
def home(tmp_path: Path) -> StateHome:
    return StateHome(str(tmp_path / "state"))


def _write(home: StateHome, name: str, content: str, mode: int = 0o600, folder_mode: int = 0o700) -> str:
    os.makedirs(home.auth, exist_ok=True)
    path = f"{home.auth}/{name}"
    Path(path).write_text(content)
    os.chmod(path, mode)
    os.chmod(home.auth, folder_mode)
    return path


def test_the_environment_beats_the_file(home: StateHome) -> None:
    _write(home, "openai", "from-file\n")

    assert find_key("openai", {"OPENAI_API_KEY": " from-environment "}, home) == "from-environment"
    assert find_key("openai", {}, home) == "from-file"


def test_a_compatible_server_has_a_key_of_its_own_first() -> None:
    both = {"PERDURE_API_KEY": "own", "OPENAI_API_KEY": "other"}

    assert find_key("openai-compatible", both, None) == "own"
    assert find_key("openai-compatible", {"OPENAI_API_KEY": "other"}, None) == "other"
    assert find_key("openai", {"PERDURE_API_KEY": "own"}, None) == ""


def test_a_missing_key_names_the_variable_and_the_file(home: StateHome) -> None:
    with pytest.raises(KeyMissing) as caught:
        need_key("anthropic", {}, home)

    assert "ANTHROPIC_API_KEY" in str(caught.value)
    assert f"{home.auth}/anthropic" in str(caught.value)


@pytest.mark.parametrize(("mode", "folder_mode"), [(0o640, 0o700), (0o604, 0o700), (0o600, 0o750), (0o600, 0o705)])
def test_a_key_that_others_can_read_is_not_used(home: StateHome, mode: int, folder_mode: int) -> None:
    _write(home, "openai", "secret-key-1", mode, folder_mode)

    with pytest.raises(UnsafeKeyFile, match="chmod") as caught:
        find_key("openai", {}, home)
    assert "secret-key-1" not in str(caught.value)


def test_a_key_in_a_repository_is_not_used(home: StateHome, tmp_path: Path) -> None:
    _write(home, "openai", "secret-key-1")
    (tmp_path / ".git").mkdir()

    with pytest.raises(UnsafeKeyFile, match=r"repository .*commit"):
        find_key("openai", {}, home)


def test_a_linked_key_is_not_used(home: StateHome, tmp_path: Path) -> None:
    os.makedirs(home.auth, mode=0o700)
    (tmp_path / "elsewhere").write_text("secret-key-1")
    os.symlink(tmp_path / "elsewhere", f"{home.auth}/openai")

    with pytest.raises(UnsafeKeyFile):
        find_key("openai", {}, home)


@pytest.mark.parametrize("content", ["two words", "one\ntwo", "gr\u00fc\u00df"])
def test_a_file_that_holds_no_key_is_not_used(home: StateHome, content: str) -> None:
    _write(home, "openai", content)

    with pytest.raises(UnsafeKeyFile, match="holds no key"):
        find_key("openai", {}, home)


def test_a_pipe_in_the_place_of_a_key_does_not_hang(home: StateHome) -> None:
    os.makedirs(home.auth, mode=0o700)
    os.mkfifo(f"{home.auth}/openai", 0o600)

    with pytest.raises(UnsafeKeyFile, match="no plain file"):
        find_key("openai", {}, home)


def test_all_keys_are_known_to_be_masked_even_those_that_may_not_be_used(home: StateHome) -> None:
    _write(home, "anthropic", "from-file\n", 0o644)

    assert set(known_keys({"OPENAI_API_KEY": "from-environment"}, home)) == {"from-file", "from-environment"}
    assert known_keys({}, None) == []


@pytest.mark.parametrize("url", ["ftp://x", "localhost:11434", "http://", "http://[::1", "http://h:99999"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="no URL"):
        find_model("openai-compatible", base_url=url, environ={}, home=None)


def test_a_compatible_server_needs_a_base_url() -> None:
    with pytest.raises(Refused, match="PERDURE_BASE_URL"):
        find_model("openai-compatible", environ={}, home=None)


def test_a_backend_that_nobody_knows_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refused, match="openai, anthropic, openai-compatible, local"):
        find_model("gemini", environ={}, home=None)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("anthropic:claude-sonnet-4-5", Choice("anthropic", "claude-sonnet-4-5")),
        ("openai-compatible:qwen3:8b", Choice("openai-compatible", "qwen3:8b")),
        ("qwen3:8b", Choice("", "qwen3:8b")),
        (" openai ", Choice("openai", "")),
        ("gpt-5", Choice("", "gpt-5")),
    ],
)
def test_words_of_fallbacks(word: str, expected: Choice) -> None:
    assert parse_choice(word) == expected
