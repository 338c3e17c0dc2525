"""What stands at a path of the state is never followed, emptied or waited for when it is not what it should be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.base.errors import EnvironmentFault
from perdure.disk import atomic, jsonl
from perdure.disk.blobs import BlobDamaged, Blobs
from perdure.disk.home import NoStateHome, StateHome, find_state_home

needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user")


_AS_USER = """
import os, pwd, sys
from perdure.base.errors import PerdureError
from perdure.disk import atomic, home
uid, code, *arguments = sys.argv[1:]
os.setgroups([])
os.setgid(int(uid))
os.setuid(int(uid))
try:
    print(eval(code))
except PerdureError as error:
    print(error)
"""


def as_user(uid: int, code: str, *arguments: object) -> str:
    """What an expression gives, or how it is refused, to a user with an empty environment and no entry in the list of users."""
    command = [sys.executable, "-c", _AS_USER, str(uid), code, *map(str, arguments)]
    return subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout.strip()


# Files


def test_a_replaced_link_is_replaced_and_its_target_left(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_text("precious")
    path.symlink_to(victim)
    atomic.replace(str(path), b"new", durable=False)

    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("precious", "new", False)


def test_a_replaced_hard_link_leaves_the_other_name(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_text("precious")
    path.hardlink_to(victim)
    atomic.replace(str(path), b"new", durable=False)

    assert (victim.read_text(), path.read_text()) == ("precious", "new")


def test_a_folder_in_the_place_of_a_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(EnvironmentFault, match="Move the folder away"):
        atomic.replace(str(path), b"new", durable=False)

    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_unfinished_file_of_a_killed_process_with_the_same_pid_is_in_nobodys_way(tmp_path: Path) -> None:
    code = """
import itertools, os, sys
from perdure.disk import atomic
path = sys.argv[1]
for number in range(1, 4):
    open(f"{path}.{os.getpid()}-{number}.tmp", "w").write("left")
atomic.replace(path, b"new", durable=False)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=True)

    assert (tmp_path / "file").read_bytes() == b"new"
    assert [each.read_text() for each in tmp_path.glob("*.tmp")] == ["left"] * 3


def test_a_log_with_another_name_is_not_appended_to(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "log"
    victim.write_text("precious")
    path.hardlink_to(victim)
    with pytest.raises(atomic.UnsafePath, match="hard links"):
        jsonl.Appender(str(path))

    assert victim.read_text() == "precious"


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_log_that_is_no_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path = Path("/dev/null")
    with pytest.raises(atomic.UnsafePath, match="no regular file"):
        list(jsonl.read(str(path)))


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_only_a_file_becomes_a_blob(tmp_path: Path, kind: str) -> None:
    blobs, path, victim = Blobs(str(tmp_path / "blobs")), tmp_path / "made", tmp_path / "victim"
    victim.write_text("precious")
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises((atomic.UnsafePath, EnvironmentFault)):
        blobs.adopt(str(path))

    assert victim.read_text() == "precious"
    assert os.path.lexists(path)


def test_a_blob_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    digest = blobs.put(b"content")
    (tmp_path / "victim").write_bytes(b"content")
    os.unlink(blobs.path(digest))
    os.symlink(tmp_path / "victim", blobs.path(digest))
    with pytest.raises(BlobDamaged, match="cannot be read"):
        blobs.read(digest)


# Folders


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_is_no_folder_of_its_own_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "folder"
    if kind == "file":
        path.touch()
    else:
        path.symlink_to(tmp_path if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(atomic.UnsafePath, match="folder"):
        atomic.private_folder(str(path))


def test_the_state_home_may_be_a_link_of_its_owner_and_what_lies_in_it_may_not(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "large")
    home = StateHome(str(tmp_path / "state"))
    home.ensure()
    assert (tmp_path / "large/runs").is_dir()
    (tmp_path / "large/runs").rmdir()
    (tmp_path / "large/runs").symlink_to(tmp_path)
    with pytest.raises(atomic.UnsafePath, match="symbolic link"):
        home.ensure()


def test_a_state_home_that_links_to_nothing_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path / "nowhere")
    with pytest.raises(atomic.UnsafePath, match="link to nothing"):
        StateHome(str(tmp_path / "state")).ensure()


def test_a_folder_that_others_can_look_into_is_told(tmp_path: Path) -> None:
    home = StateHome(str(tmp_path / "state"))
    assert home.ensure() == []
    (tmp_path / "state").chmod(0o755)
    assert home.ensure() == [f"{tmp_path}/state has mode 0755; others can look in."]


def test_nothing_is_made_before_it_is_wanted(tmp_path: Path) -> None:
    home = find_state_home(str(tmp_path / "state"), {})
    assert home.workspace(str(tmp_path)).startswith(f"{tmp_path}/state/workspaces/")
    assert (home.limits, home.auth) == (f"{tmp_path}/state/limits.json", f"{tmp_path}/state/auth")
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_folder_of_another_user_is_refused_with_both_users(tmp_path: Path) -> None:
    folder = open_to_all(tmp_path) / "folder"
    folder.mkdir()
    folder.chmod(0o777)
    os.chown(folder, 54321, 54321)
    said = as_user(12345, "atomic.private_folder(arguments[0])", folder)

    assert said == f"{folder} belongs to uid 54321; this process is uid 12345. Choose a folder of your own."


@needs_root
def test_a_place_without_write_access_is_told_with_its_owner_mode_and_the_way_out(tmp_path: Path) -> None:
    folder = open_to_all(tmp_path) / "folder"
    folder.mkdir(mode=0o755)
    said = as_user(12345, "atomic.replace(arguments[0], b'', durable=False)", folder / "file")

    assert said == (
        f"{folder}/file cannot be written: Permission denied. {folder} belongs to uid 0 with mode 0755; "
        "this process is uid 12345. Give it write access."
    )


def open_to_all(tmp_path: Path) -> Path:
    """The test's folder, which others than its owner may enter."""
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder != Path("/tmp"):
            folder.chmod(0o755)
    return tmp_path


# Homes


@needs_root
def test_a_user_without_a_home_is_told_what_to_set() -> None:
    said = as_user(12345, "home.find_state_home(None, os.environ)")
    assert said == "HOME is not set, so there is no place for the state. Set PERDURE_STATE_HOME, or pass --state-dir."
    assert as_user(12345, "home.find_state_home('/somewhere', os.environ)") == "StateHome(root='/somewhere')"


@pytest.mark.parametrize("named", ["~nobody-of-that-name/state", "~nobody-of-that-name"])
def test_the_home_of_nobody_is_not_taken_for_a_folder_here(named: str) -> None:
    with pytest.raises(NoStateHome, match="user who has none"):
        find_state_home(named, {})


def test_a_home_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(NoStateHome, match="no folder"):
        find_state_home(None, {"HOME": str(tmp_path / "home")})
