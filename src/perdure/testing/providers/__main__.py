"""`python -m perdure.testing.providers --script FILE`: a fake provider as a program. Prints its URL, serves until it is ended."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from perdure.testing.providers.script import load_script
from perdure.testing.providers.server import KEY, MODELS, FakeProvider


def main(arguments: list[str]) -> int:
    """Serve; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.providers", description=__doc__)
    parser.add_argument("--script", required=True, help="a JSON file: replies, or {pick, replies}")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--log", help="a file that gets a line for each request and each end of one")
    parser.add_argument("--key", default=KEY, help="the key that clients must send; empty asks for none")
    parser.add_argument("--model", action="append", help="a model that it has; may be repeated")
    given = parser.parse_args(arguments)
    script, pick = load_script(given.script)
    ended = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ended.set())
    models = given.model or MODELS
    with FakeProvider(script, pick=pick, models=models, key=given.key, log_path=given.log, port=given.port) as provider:
        print(provider.url, flush=True)  # noqa: T201 - what it is started for
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
