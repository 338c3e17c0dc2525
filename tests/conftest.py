"""What all tests share: an environment that knows nothing of the machine, a state of their own, and the program itself."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "perdure", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", parent=settings.get_profile("perdure"), derandomize=False, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "perdure"))

PROGRAM_LIMIT_S = 45.0
_AUTHOR = {"NAME": "tests", "EMAIL": "tests@localhost"}


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No setting, secret, identity or home of whoever runs the tests reaches them."""
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "GIT_", "XDG_")) or name in ("LANGUAGE", "LC_ALL", "NO_COLOR", "FORCE_COLOR"):
            del os.environ[name]
    os.environ.update(
        {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _AUTHOR.items()}
    )
    os.environ.update(
        HOME=str(tmp_path_factory.mktemp("home")),
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_CONFIG_NOSYSTEM="1",
        GIT_TERMINAL_PROMPT="0",
        LANG="C.UTF-8",
        TZ="UTC",
        COLUMNS="100",
    )
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state home that is not there yet; this process and those that it starts use it."""
    home = tmp_path / "state"
    monkeypatch.setenv("PERDURE_STATE_HOME", str(home))
    return home


class Ran(NamedTuple):
    """What a finished program did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output, which must be JSON and nothing else."""
        return msgspec.json.decode(self.out.encode())

    def succeeded(self) -> "Ran":
        """Itself; the test fails with all that was said when the exit code is not 0."""
        assert self.code == 0, f"exit code {self.code}\n--- standard output\n{self.out}\n--- standard error\n{self.err}"
        return self


Perdure = Callable[..., Ran]


@pytest.fixture
def perdure(state_home: Path, tmp_path: Path) -> Perdure:
    """The program as a process of its own: `perdure("ps", "--json").json`. It works in the test's folder unless `cwd` says."""

    def run(
        *arguments: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        limit_s: float = PROGRAM_LIMIT_S,
    ) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "perdure.cli.entry", *map(str, arguments)],
            cwd=cwd or tmp_path,
            env={**os.environ, **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            timeout=limit_s,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A Git repository with one commit on `main`."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "README").write_text("A little repository.\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)
    return root
