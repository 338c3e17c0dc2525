"""A recorded run, file by file. After a wanted change: `ACCEPT_GOLDEN=1 pytest tests/unit/views/test_golden.py`, and read the diff."""

import os
import shutil
from pathlib import Path

from perdure.disk.blobs import Blobs
from perdure.kernel.events import parse_line
from perdure.views.rebuild import rebuild_run_directory
from perdure.views.restore import read_run_directory

from .logs import RUN, tree

GOLDEN = Path(__file__).parents[2] / "golden/run_directory"
EXPECTED = GOLDEN / f"20260307-{RUN}"


def test_a_recorded_run_gives_just_these_files(tmp_path: Path) -> None:
    blobs = Blobs(str(tmp_path / "blobs"))
    for content in sorted((GOLDEN / "blobs").iterdir()):
        blobs.put(content.read_bytes())
    events = [parse_line(line) for line in (GOLDEN / "events.jsonl").read_bytes().splitlines()]
    rebuild_run_directory(str(tmp_path / "run"), events, blobs)
    if os.environ.get("ACCEPT_GOLDEN"):
        shutil.rmtree(EXPECTED, ignore_errors=True)
        shutil.copytree(tmp_path / "run", EXPECTED, copy_function=shutil.copyfile)

    assert tree(tmp_path / "run") == tree(EXPECTED)


def test_a_recorded_directory_of_an_earlier_version_is_read_whole() -> None:
    found = read_run_directory(str(EXPECTED))

    assert (len(found.events), found.problems) == (len((GOLDEN / "events.jsonl").read_bytes().splitlines()), [])
