"""A run directory made anew from the log."""

import os
from collections.abc import Sequence
from contextlib import suppress

from perdure.base.errors import Refused
from perdure.disk.atomic import private_folder
from perdure.disk.blobs import Blobs
from perdure.kernel.events import Event
from perdure.views.run_directory import RunDirectory

# Not made from the log: people's answers, and the working folder.
KEPT = ("worktree", "runtime/interview_response.json", "runtime/interview_responses")


def rebuild_run_directory(run_dir: str, events: Sequence[Event], blobs: Blobs) -> int:
    """Write every view of the run again; how many files there are now.

    The new files are made beside the old ones and moved over them one by one, so a kill half-way leaves whole files; files that
    are no views stay.
    """
    if not events:
        raise Refused(f"{run_dir} cannot be rebuilt: the run has no events.")
    fresh = f"{run_dir}.{os.getpid()}.rebuild"
    view = RunDirectory(fresh, blobs)
    view.committed(events)
    view.flush()
    count = 0
    for folder, _folders, names in os.walk(fresh):
        relative = os.path.relpath(folder, fresh)
        target = run_dir if relative == "." else os.path.join(run_dir, relative)
        private_folder(target)
        for name in names:
            os.replace(os.path.join(folder, name), os.path.join(target, name))
            count += 1
    for folder, _folders, _names in os.walk(fresh, topdown=False):
        with suppress(OSError):
            os.rmdir(folder)
    return count
