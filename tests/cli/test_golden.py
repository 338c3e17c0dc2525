"""What people and programs read, word for word. `UPDATE_GOLDEN=1 pytest tests/cli/test_golden.py` writes the files anew."""

import json
import os
import re
from pathlib import Path

import pytest

from conftest import Perdure, Ran  # type: ignore[import-not-found]

from .workflows import GATED

GOLDEN = Path(__file__).parent / "golden"
FAILS = """digraph fails {
    goal = "Fail on purpose"
    start [shape=Mdiamond] exit [shape=Msquare]
    good [shape=parallelogram, label="Good", script="echo fine"]
    bad [shape=parallelogram, label="Bad", script="echo broken >&2; exit 3"]
    start -> good -> bad -> exit
}"""
BAD = "digraph bad {\n  start [shape=Mdiamond]\n  start -> nowhere [label=]\n}\n"

TEXTS = {
    "ps-none": ["ps"],
    "run-waits": ["run", "gated.fabro"],
    "run-quiet": ["--quiet", "run", "gated.fabro"],
    "run-fails": ["run", "fails.fabro"],
    "run-invalid": ["run", "bad.fabro"],
    "ps": ["ps"],
    "ps-all": ["ps", "-a"],
    "show-waits": ["show", "gated"],
    "show-failed": ["show", "fails"],
    "questions": ["questions"],
    "wait": ["wait", "fails"],
    "logs-pretty": ["logs", "-p", "fails"],
    "validate": ["validate", "gated.fabro"],
    "validate-invalid": ["validate", "bad.fabro"],
    "answer-wrong": ["answer", "gated", "perhaps"],
    "answer": ["answer", "gated", "Y"],
    "resume": ["resume", "gated"],
    "rewind-list": ["rewind", "gated", "--list"],
    "rm-refused": ["rm", "nothing"],
    "prune": ["prune", "--older-than", "0m"],
    "no-command": ["fly"],
}
SHAPES = {
    "ps": ["ps", "-a", "--json"],
    "run": ["run", "gated.fabro", "--json"],
    "show": ["show", "fails", "--json"],
    "questions": ["questions", "--json"],
    "inspect": ["inspect", "fails"],
    "wait": ["wait", "fails", "--json"],
    "validate": ["validate", "bad.fabro", "--json"],
    "doctor": ["doctor", "--json"],
    "rewind-list": ["rewind", "fails", "--list", "--json"],
    "prune": ["prune", "--older-than", "0m", "--json"],
}


@pytest.fixture(autouse=True)
def workflows(tmp_path: Path) -> None:
    """Workflows that wait, fail, and are wrong."""
    (tmp_path / "gated.fabro").write_text(GATED)
    (tmp_path / "fails.fabro").write_text(FAILS)
    (tmp_path / "bad.fabro").write_text(BAD)


def test_texts_are_word_for_word(perdure: Perdure, tmp_path: Path) -> None:
    """One story, so that each command has something to tell."""
    for name, arguments in TEXTS.items():
        compare(f"{name}.txt", shown(arguments, perdure(*arguments), tmp_path))


def test_json_has_the_same_keys_and_types(perdure: Perdure) -> None:
    perdure("run", "fails.fabro")
    for name, arguments in SHAPES.items():
        compare(f"{name}.shape.json", json.dumps(shape(perdure(*arguments).json), indent=2, sort_keys=True) + "\n")


def compare(name: str, text: str) -> None:
    """The text is what the file says, or becomes it."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), name


def shown(arguments: list[str], ran: Ran, folder: Path) -> str:
    """All that a command printed, without what differs from day to day."""
    text = f"$ perdure {' '.join(arguments)}\n{ran.out}--- errors\n{ran.err}--- exit {ran.code}\n"
    # The folder's name has another length each time, and columns are as wide as what is in them.
    text = text.replace(str(folder), "FOLDER")
    for pattern, mark in (
        (r"\b20\d{6}-01[0-9A-Z]{24}", "DATE-ID"),
        (r"\b01[0-9A-Z]{24}\b", "ID"),
        (r"\b01[0-9A-Z]{10}\b", "ID12"),
        (r"20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"20\d\d-\d\d-\d\d \d\d:\d\d", "TIME"),
        (r"duration_ms=\d+", "duration_ms=N"),
        (r"\b[\d.]+ (ms|s)\b", "SPAN"),
        (r"\b[\d.]+ MB", "N MB"),
        (r"…\S+", "…PATH"),
        (r" {2,}", "  "),
    ):
        text = re.sub(pattern, mark, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def shape(value: object) -> object:
    """The keys and the kinds of values; of a list, the kinds of what is in it."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items() if key not in ("settings", "graph", "config")}
    if isinstance(value, list):
        found = [shape(each) for each in value]
        return [each for number, each in enumerate(found) if each not in found[:number]]
    return type(value).__name__
