"""The process that holds the local model: `python -m perdure.llm.local_server WEIGHTS NAME CONTEXT`.

The first line of its standard input is the key that clients must send. It prints its address and serves until its standard input
ends, which it does when whoever started it is gone.
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    """Serve on a free port of loopback; the exit code."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = arguments[0]
    settings.model_alias = {arguments[1]}
    settings.n_ctx = int(arguments[2])
    settings.n_parallel = 1
    settings.port = 0
    settings.hostnames = ["127.0.0.1"]
    settings.api_keys = [sys.stdin.buffer.readline().decode("ascii").strip()]
    # More threads wait for each other by spinning, and crawl when the machine has other work.
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)  # noqa: T201 - the answer to whoever started it
    sys.stdin.buffer.read()
    # Its destructor waits for work that nobody wants any more.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
