"""A state home in the test's folder, and files in it."""

from pathlib import Path

import pytest

from perdure.disk.home import StateHome


@pytest.fixture
def home(tmp_path: Path) -> StateHome:
    return StateHome(str(tmp_path / "state"))
