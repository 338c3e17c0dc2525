"""The state home: where everything lies that outlives a process. Nothing is made before `ensure`."""

import os
import sys
from collections.abc import Mapping

import msgspec

from perdure.base.errors import EnvironmentFault
from perdure.disk.atomic import private_folder


class NoStateHome(EnvironmentFault):
    """Nothing says where the state is to be."""

    code = "no_state_home"


class StateHome(msgspec.Struct, frozen=True):
    """The state home's root and what lies under it; docs/reference/state-home.md shows the whole tree."""

    root: str

    @property
    def database(self) -> str:
        """The log of all runs."""
        return f"{self.root}/state.sqlite"

    @property
    def runs(self) -> str:
        """One directory a run."""
        return f"{self.root}/runs"

    @property
    def blobs(self) -> str:
        """Content by digest."""
        return f"{self.root}/artifacts/blobs"

    @property
    def settings(self) -> str:
        """The person's own settings."""
        return f"{self.root}/settings.toml"

    @property
    def limits(self) -> str:
        """How many agents may work at once on this machine."""
        return f"{self.root}/limits.json"

    @property
    def auth(self) -> str:
        """Keys and tokens, in a folder of their own."""
        return f"{self.root}/auth"

    @property
    def agent_sessions(self) -> str:
        """Conversations of agents, one file each, in a folder that only its owner may look into."""
        return f"{self.root}/agent-sessions"

    @property
    def launchers(self) -> str:
        """Records and logs of detached runs' processes."""
        return f"{self.root}/launchers"

    def workspace(self, root: str) -> str:
        """The directory of a workspace."""
        return f"{self.root}/workspaces/{workspace_id(root)}"

    def run_dir(self, run_id: str, created_ms: int) -> str:
        """The directory of a run: the local date of its making, then its id."""
        import time

        day = time.strftime("%Y%m%d", time.localtime(created_ms / 1000))
        return f"{self.root}/runs/{day}-{run_id}"

    def ensure(self) -> list[str]:
        """Make what must be there, for its owner only; what a person should know, such as a folder that others can look into.

        The root may be a symbolic link that its owner made, to a larger disk say; what lies in it may not. Raises
        `UnsafePath` or `EnvironmentFault`.
        """
        found = [private_folder(self.root, follow=True)]
        found += [private_folder(folder) for folder in (self.runs, f"{self.root}/artifacts", self.blobs)]
        return [each for each in found if each is not None]


def find_state_home(given: str | None, environ: Mapping[str, str]) -> StateHome:
    r"""`--state-dir`, else `$PERDURE_STATE_HOME`, else `$XDG_STATE_HOME/perdure`, else `%LOCALAPPDATA%\perdure` on Windows,
    else `~/.local/state/perdure`. Raises `NoStateHome` when none of these names a folder."""
    named = given or environ.get("PERDURE_STATE_HOME")
    if named:
        path = os.path.expanduser(named)
        if path.startswith("~"):
            raise NoStateHome(
                f"{named[:80]} names the home of a user who has none.",
                hint="Set PERDURE_STATE_HOME, or pass --state-dir, to a whole path.",
            )
        return StateHome(os.path.abspath(path))
    xdg = environ.get("XDG_STATE_HOME")
    if xdg and os.path.isabs(xdg):
        return StateHome(os.path.join(xdg, "perdure"))
    if sys.platform == "win32" and environ.get("LOCALAPPDATA"):
        return StateHome(os.path.join(environ["LOCALAPPDATA"], "perdure"))
    home = environ.get("HOME") or _home_of_user()
    if not home or not os.path.isdir(home):
        raise NoStateHome(
            f"HOME is {home or 'not set'}{' and no folder' if home else ''}, so there is no place for the state.",
            hint="Set PERDURE_STATE_HOME, or pass --state-dir.",
        )
    return StateHome(os.path.join(home, ".local", "state", "perdure"))


def _home_of_user() -> str | None:
    home = os.path.expanduser("~")
    return None if home == "~" else home


def workspace_id(root: str) -> str:
    """The first 12 hex digits of the SHA-256 of the canonical path: the same for every spelling of one folder."""
    import hashlib

    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:12]
