"""The safety boundary: state never lies inside a repository that is run, or a clean-up of the one would take the other."""

import os

from perdure.base.errors import Refused


class StateInsideRepository(Refused):
    """The state home lies inside the repository that is to be run."""

    code = "state_inside_repository"


def check_state_outside(state_root: str, repository: str) -> None:
    """Raises `StateInsideRepository` when the state lies in the repository: by its name, through symbolic links, or on a disk
    where one folder has several names."""
    if _is_inside(state_root, repository):
        raise StateInsideRepository(
            f"The state home {state_root} lies inside the repository {repository}.",
            hint="Choose one outside: set PERDURE_STATE_HOME, or pass --state-dir.",
        )


def _is_inside(path: str, folder: str) -> bool:
    for inner in {os.path.abspath(path), os.path.realpath(path)}:
        for outer in {os.path.abspath(folder), os.path.realpath(folder)}:
            if inner == outer or inner.startswith(outer.rstrip(os.sep) + os.sep):
                return True
    try:
        outer_at = os.stat(folder)
    except OSError:
        return False
    # The same folder under another name: `Repo` and `repo` where case does not count, or a folder that is mounted twice.
    inner = os.path.realpath(path)
    while True:
        try:
            if os.path.samestat(os.stat(inner), outer_at):
                return True
        except OSError:
            pass  # not made yet
        parent = os.path.dirname(inner)
        if parent == inner:
            return False
        inner = parent
