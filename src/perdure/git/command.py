"""Calling `git`: no shell, no prompt, no hooks, in one language."""

import os
import subprocess
from collections.abc import Mapping

import msgspec

from perdure.base.errors import EnvironmentFault

_ALWAYS = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "gc.auto=0",
    "-c",
    "core.quotePath=false",
)


class GitFailed(EnvironmentFault):
    """A call of `git` failed; the message holds what it said."""

    code = "git_failed"


class GitResult(msgspec.Struct, frozen=True):
    """What a call gave."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """The output without its last line end."""
        return self.stdout.decode("utf-8", "replace").rstrip("\n")


def git(
    cwd: str,
    *arguments: str,
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> GitResult:
    """Run git in a folder. Raises `GitFailed` when it cannot be run, or ends otherwise than with 0 while `check` is on."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
    environ |= env or {}
    try:
        done = subprocess.run(  # noqa: S603 - arguments are a list
            ["git", *_ALWAYS, *arguments],  # noqa: S607 - the git of the person's PATH
            cwd=cwd,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            env=environ,
            check=False,
        )
    except FileNotFoundError as error:
        missing = "the folder is not there" if not os.path.isdir(cwd) else "there is no program git"
        raise GitFailed(f"git cannot be run in {cwd}: {missing}.") from error
    except OSError as error:
        raise GitFailed(f"git cannot be run in {cwd}: {error.strerror}.") from error
    stderr = done.stderr.decode("utf-8", "replace").strip()
    if check and done.returncode != 0:
        raise GitFailed(f"git {' '.join(arguments[:3])} failed in {cwd}: {stderr or done.returncode}.")
    return GitResult(done.returncode, done.stdout, stderr)
