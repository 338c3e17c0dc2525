"""After `kill -9`, what the dead owner had started is ended before it is started again: agents, hooks and setup commands too."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.disk.process import started_at

SETTINGS = {
    "agent": '[backend]\nname = "command"\ncommand = "/bin/sh work.sh"',
    "hook": '[backend]\nname = "simulated"\n[[hooks]]\nevent = "run_start"\ncommand = "/bin/sh ./work.sh"',
    "setup": '[backend]\nname = "simulated"\n[setup]\ncommands = ["/bin/sh ./work.sh"]',
}
# The first time it hangs with a child; the second time it says whether what it left behind is still there.
WORK = """
cat >/dev/null
echo x >> count
if test -e pids; then for pid in $(cat pids); do grep -qs "^State:.[^XZ]" /proc/$pid/status && echo $pid >> alive; done; exit 0; fi
sleep 300 & echo "$! $$" > pids
cat ready
"""


@pytest.mark.parametrize("what", SETTINGS)
def test_a_process_of_a_dead_owner_is_ended_before_its_work_is_begun_again(
    perdure: Perdure, tmp_path: Path, what: str
) -> None:
    (tmp_path / "w.fabro").write_text(
        "digraph w { start [shape=Mdiamond] exit [shape=Msquare] a [prompt=a] start -> a -> exit }"
    )
    (tmp_path / "workflow.toml").write_text(f'version = 1\ngraph = "w.fabro"\n{SETTINGS[what]}\n')
    (tmp_path / "work.sh").write_text(WORK)
    os.mkfifo(tmp_path / "ready")
    owner = subprocess.Popen(
        [sys.executable, "-m", "perdure.cli.entry", "run", "workflow.toml"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with open(tmp_path / "ready", "w"):  # opens when the work has come so far
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(started_at(pid) is not None for pid in pids)

        perdure("resume", "w").succeeded()

    assert [started_at(pid) for pid in pids] == [None, None]
    assert (tmp_path / "count").read_text() == "x\nx\n"
    assert not (tmp_path / "alive").exists()
