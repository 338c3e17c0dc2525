"""Looking at runs works where nothing can be written, and on a state that is not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import GATED, HELLO

LOOKS = [
    ["ps", "-a"], ["ps", "-a", "--json"], ["show", "hello"], ["logs", "hello"], ["logs", "-p", "hello"], ["inspect", "hello"],
    ["questions"], ["doctor"], ["watch", "hello"], ["wait", "hello"], ["artifact", "list", "hello"],
    ["rewind", "hello", "--list"], ["prune"], ["session", "list"],
]  # fmt: skip
_IN_A_READ_ONLY_MOUNT = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99
! touch "$1/probe" 2>/dev/null || exit 99
shift
exec "$@"
"""


@pytest.fixture
def state(perdure: Perdure, tmp_path: Path, state_home: Path) -> Path:
    """A state with a run that ended and one that waits."""
    (tmp_path / "hello.fabro").write_text(HELLO % '"echo x"')
    (tmp_path / "gated.fabro").write_text(GATED)
    perdure("run", "hello.fabro").succeeded()
    assert perdure("run", "gated.fabro").code == 4
    return state_home


def test_every_look_works_on_a_disk_that_can_only_be_read(state: Path, tmp_path: Path) -> None:
    probe = ["unshare", "-m", "sh", "-c", _IN_A_READ_ONLY_MOUNT, "sh", str(state), "true"]
    try:
        if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            pytest.skip("this machine lets nobody mount")
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    for look in LOOKS:
        command = [*probe[:-1], sys.executable, "-m", "perdure.cli.entry", *look]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
        assert (look, done.returncode, done.stderr if "Traceback" in done.stderr else "") == (look, 0, "")


def test_every_look_leaves_every_file_as_it_was(perdure: Perdure, state: Path) -> None:
    before = snapshot(state)
    for look in LOOKS:
        perdure(*look).succeeded()

    assert snapshot(state) == before


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_no_look_makes_a_state_that_is_not_there(perdure: Perdure, state_home: Path, look: list[str]) -> None:
    ran = perdure(*look)

    assert ran.code in (0, 4)
    assert "Traceback" not in ran.err
    assert not state_home.exists()


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file but the database's shared memory, in which its readers tell each other what they read."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }
