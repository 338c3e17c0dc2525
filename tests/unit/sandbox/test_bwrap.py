"""Confinement by the real bubblewrap: writes only in the worktree, no network, no secrets, nothing left behind."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from perdure.disk import process
from perdure.sandbox.bwrap import Confinement, SandboxMissing, confine
from perdure.sandbox.command import CommandSpec, run_command, script_argv


def _why_not() -> str:
    if shutil.which("bwrap") is None:
        return "there is no program bwrap (package bubblewrap)"
    done = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--unshare-net", "--unshare-pid", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"bwrap does not run here: {done.stderr.strip()}" if done.returncode else ""


needs_bwrap = pytest.mark.skipif(bool(_why_not()), reason=_why_not())


class Ran(NamedTuple):
    code: int | None
    out: str
    timed_out: bool


class Box:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.root = self.state / "runs" / "r" / "worktree"
        self.root.parent.mkdir(parents=True)
        self.repository = folder / "repository"
        self.repository.mkdir()
        self.git("init", "-q", "-b", "main")
        (self.repository / "a").write_text("a")
        self.git("add", ".")
        self.git("commit", "-qm", "one")
        self.git("worktree", "add", "-q", "-b", "work", str(self.root))
        (self.state / "key").write_text("secret")

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.repository, check=True)

    def run(self, script: str, *, network: bool = False, root: Path | None = None, timeout_ms: int = 20_000) -> Ran:
        root = root or self.root
        confinement = Confinement(str(root), str(root), (str(self.state),), network)
        argv = confine(script_argv(f"{{ {script}\n}} 2>&1", "shell"), confinement, os.environ["PATH"])
        out = self.folder / "out"
        spec = CommandSpec(argv, str(root), dict(os.environ), timeout_ms=timeout_ms)
        result = asyncio.run(run_command(spec, stdout_path=str(out), stderr_path=str(self.folder / "err")))
        return Ran(result.exit_code, out.read_text() + (self.folder / "err").read_text(), result.timed_out)


@pytest.fixture
def box() -> Iterator[Box]:
    """Not in /tmp, of which a confined command has one of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Box(Path(folder))


def test_a_missing_bubblewrap_is_named_and_nothing_runs_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.sandbox.bwrap.find_program", lambda _name, _path: None)
    with pytest.raises(SandboxMissing, match="package bubblewrap"):
        confine(["true"], Confinement(str(tmp_path), str(tmp_path)), "/nowhere")


@needs_bwrap
def test_only_the_worktree_and_a_tmp_of_its_own_can_be_written(box: Box) -> None:
    outside = box.folder / "outside"
    assert box.run("echo x > made && cat made").out == "x\n"
    assert box.run(f"echo x > {outside}").code != 0
    assert box.run(f"echo x > {box.repository}/a").code != 0
    assert box.run("echo x > /etc/perdure-test").code != 0
    assert box.run("echo x > /tmp/mine && cat /tmp/mine").out == "x\n"
    assert (box.root / "made").exists()
    assert not outside.exists()
    assert not Path("/tmp/mine").exists()


@needs_bwrap
def test_the_state_and_the_keys_of_the_home_are_hidden(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    home = box.folder / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("private")
    (home / ".netrc").write_text("password")
    monkeypatch.setenv("HOME", str(home))
    assert box.run(f"cat {box.state}/key").code != 0
    shown = box.run(f"ls -A {home}/.ssh; cat {home}/.netrc").out
    assert "id" not in shown.split()
    assert "password" not in shown


@needs_bwrap
def test_there_is_no_network_unless_it_is_allowed(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        assert box.run(connect).code != 0
        assert "connected" in box.run(connect, network=True).out


@needs_bwrap
def test_the_worktree_can_be_committed_but_git_cannot_be_turned_against_the_outside(box: Box) -> None:
    done = box.run("echo x > b && git add b && git commit -qm two && git log --oneline | wc -l")
    assert (done.code, done.out.strip()) == (0, "2")
    own = box.repository / ".git" / "worktrees" / "worktree"
    for script in (
        f"echo x > {box.repository}/.git/hooks/pre-commit",
        "git config core.fsmonitor /bin/evil",
        f"echo /evil > {own}/commondir",
        f"mv {own}/commondir {own}/x",
        "echo gitdir: /evil > .git",
        "mv .git x",
    ):
        assert box.run(script).code != 0, script
    box.git("fsck")


@needs_bwrap
def test_the_git_folder_of_a_plain_repository_is_read_only(box: Box) -> None:
    assert box.run("git status --short && echo x > made", root=box.repository).code == 0
    assert box.run("echo x > .git/config", root=box.repository).code != 0


@needs_bwrap
def test_a_time_limit_ends_all_that_runs_inside(box: Box) -> None:
    marker = f"{os.getpid()}77.5"
    assert box.run(f"setsid sleep {marker} & sleep {marker}", timeout_ms=800).timed_out
    left = [
        pid
        for pid in os.listdir("/proc")
        if pid.isdigit() and process.started_at(int(pid)) is not None and marker in _words(pid)
    ]
    assert left == []


def _words(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


@needs_bwrap
def test_keys_inside_the_working_folder_are_hidden_too(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(box.root))
    (box.root / ".ssh").mkdir()
    (box.root / ".ssh" / "id").write_text("private")
    assert box.run("ls -A .ssh; echo x > made").out == ""
    assert (box.root / "made").exists()


@needs_bwrap
def test_the_command_and_its_end_are_seen_as_they_are(box: Box) -> None:
    assert box.run("exit 7").code == 7
    assert box.run("""printf '%s' '$x "y"'""").out == '$x "y"'
