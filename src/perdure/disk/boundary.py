"""The safety boundary: state never lies inside a repository that is run, or a clean-up of the one would take the other."""

import os

from perdure.base.errors import Refused


class StateInsideRepository(Refused):
    """The state home lies inside the repository that is to be run."""

    code = "state_inside_repository"


def check_state_outside(state_root: str, repository: str) -> None:
    """Raises `StateInsideRepository` when the state lies in the repository, through symbolic links too."""
    for state in {os.path.abspath(state_root), os.path.realpath(state_root)}:
        for folder in {os.path.abspath(repository), os.path.realpath(repository)}:
            if state == folder or state.startswith(folder.rstrip(os.sep) + os.sep):
                raise StateInsideRepository(
                    f"The state home {state_root} lies inside the repository {repository}.",
                    hint="Choose one outside: set PERDURE_STATE_HOME, or pass --state-dir.",
                )
