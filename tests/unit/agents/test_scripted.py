"""The scripted and the simulated backend, and how a backend is found by its name."""

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.backend import BACKENDS, BackendError, find_backend
from perdure.agents.scripted import ScriptedBackend
from perdure.base.errors import Refused

from .conftest import Turns


def script(turns: Turns, answers: Any) -> ScriptedBackend:
    path = turns.folder / "answers.json"
    path.write_text(json.dumps({"answers": answers}))
    return ScriptedBackend.load(str(path))


def test_answers_are_by_node_and_a_star_is_for_all_others(turns: Turns) -> None:
    backend = script(turns, {"fix": "mended", "*": "else"})

    assert turns.ask(backend).text == "mended"
    assert turns.ask(backend, node_id="other").text == "else"


def test_a_list_is_by_visit_and_its_last_answer_holds_on(turns: Turns) -> None:
    backend = script(turns, {"fix": ["first", "second"]})

    assert [turns.ask(backend, visit=visit).text for visit in (1, 2, 3)] == ["first", "second", "second"]


def test_a_list_in_the_list_is_by_attempt(turns: Turns) -> None:
    backend = script(turns, {"fix": [["1.1", "1.2"], "2"]})

    assert [turns.ask(backend, visit=v, attempt=a).text for v, a in ((1, 1), (1, 2), (1, 3), (2, 2))] == [
        "1.1",
        "1.2",
        "1.2",
        "2",
    ]


def test_an_answer_does_not_depend_on_what_was_asked_before(turns: Turns) -> None:
    """A resumed run asks a new backend, and gets what the old one would have given."""
    answers = {"fix": ["first", "second"]}
    once = script(turns, answers)
    turns.ask(once)

    assert turns.ask(once, visit=2) == turns.ask(script(turns, answers), visit=2)


def test_an_answer_may_write_files_and_say_more_than_its_text(turns: Turns) -> None:
    answer = {
        "text": "t",
        "files": {"deep/a.txt": "content"},
        "usage": {"input_tokens": 1},
        "directive": {"outcome": "failed"},
    }
    result = turns.ask(script(turns, {"fix": answer}))

    assert (turns.work / "deep/a.txt").read_text() == "content"
    assert (result.files_touched, result.usage, result.directive) == (
        ["deep/a.txt"],
        {"input_tokens": 1},
        {"outcome": "failed"},
    )


@pytest.mark.parametrize("name", ["../out.txt", "/tmp/out-of-the-script.txt", "link/out.txt"])
def test_no_file_is_written_outside_of_the_working_folder(turns: Turns, name: str) -> None:
    (turns.work / "link").symlink_to(turns.folder)
    with pytest.raises(BackendError, match="outside"):
        turns.ask(script(turns, {"fix": {"files": {name: "x"}}}))

    assert not (turns.folder / "out.txt").exists()


def test_a_scripted_failure_says_whether_it_may_be_tried_again(turns: Turns) -> None:
    with pytest.raises(BackendError, match="rate limit") as raised:
        turns.ask(script(turns, {"fix": {"fail": "rate limit", "retryable": True}}))
    assert raised.value.retryable

    with pytest.raises(BackendError, match="exit code 3") as raised:
        turns.ask(script(turns, {"fix": {"exit_code": 3, "files": {"left.txt": "behind"}}}))
    assert not raised.value.retryable
    assert (turns.work / "left.txt").exists()


def test_a_node_without_an_answer_fails(turns: Turns) -> None:
    with pytest.raises(BackendError, match="no answer for node fix"):
        turns.ask(script(turns, {"other": "x"}))


def test_a_script_may_be_toml(turns: Turns) -> None:
    path = turns.folder / "answers.toml"
    path.write_text('[answers]\nother = "x"\nfix = ["one", { text = "two", delay_ms = 1 }]\n')

    assert turns.ask(ScriptedBackend.load(str(path)), visit=2).text == "two"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"answers": {"fix": {"txt": "a typing error"}}}', "txt"),
        ('{"answers": {"fix": {"delay_ms": "long"}}}', "delay_ms"),
        ('{"answers": {"fix": {"delay_ms": -1}}}', "delay_ms"),
        ('{"answers": {"fix": [["x", 5]]}}', "answers"),
        ('{"answers": {"fix": []}}', "answers"),
        ('{"answers": 5}', "answers"),
        ('{"fix": "x"}', "answers"),
        ('{"answers": {"fix": "cut', "cannot be used"),
        ("[" * 100_000, "cannot be used"),
        ("\xff", "cannot be used"),
    ],
)  # fmt: skip
def test_a_script_that_cannot_be_used_is_refused_with_the_place(tmp_path: Path, content: str, place: str) -> None:
    path = tmp_path / "answers.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(Refused, match=place) as raised:
        ScriptedBackend.load(str(path))
    assert str(path) in raised.value.message


def test_a_simulated_answer_names_the_node(turns: Turns) -> None:
    assert turns.ask(find_backend("simulated", [], None)).text == "[Simulated] fix"


def test_an_unknown_backend_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(Refused) as raised:
        find_backend("telepathy", [], None)

    assert all(name in str(raised.value) for name in ("telepathy", *BACKENDS))


@pytest.mark.parametrize(("name", "option"), [("command", "--command"), ("scripted", "--script")])
def test_a_backend_that_lacks_what_it_needs_is_refused_with_the_way_out(name: str, option: str) -> None:
    with pytest.raises(Refused) as raised:
        find_backend(name, [], None)

    assert option in str(raised.value)


def test_a_script_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        find_backend("scripted", [], str(tmp_path / "none.json"))
