"""A real terminal that a program runs in, with a person who types and reads."""

import fcntl
import os
import select
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from .workflows import heed_interrupts


class Terminal:
    """`perdure` with these arguments in a terminal of its own; it is ended with the block."""

    def __init__(self, cwd: Path, *arguments: str) -> None:
        self._master, slave = os.openpty()
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perdure.cli.entry", *arguments],
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one thread
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def see(self, text: str, limit_s: float = 20.0) -> None:
        """Read until this was shown since the last look."""
        deadline = time.monotonic() + limit_s
        while text not in self.text:
            left = deadline - time.monotonic()
            assert left > 0, f"never saw {text!r} in:\n{self.text}"
            if select.select([self._master], [], [], left)[0]:
                self._read()
        self.text = self.text.partition(text)[2]

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    def ended(self, limit_s: float = 20.0) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if select.select([self._master], [], [], 0.05)[0] and not self._read():
                break
            if self.process.poll() is not None and not select.select([self._master], [], [], 0)[0]:
                break
        return self.process.wait(limit_s)

    def _read(self) -> bool:
        try:
            content = os.read(self._master, 65_536)
        except OSError:  # nobody has the other side any more
            return False
        self.text += content.decode("utf-8", "replace")
        return bool(content)


def _take_terminal() -> None:
    heed_interrupts()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
