"""A whole process that goes on with an interrupted run to its end, set up as the `perdure` command sets itself up.

python benchmarks/recover.py STATE
"""

import sys

from perdure.cli import entry

entry.prepare()

import asyncio  # noqa: E402

import noops  # noqa: E402, F401 - registers what the run is made of

from perdure.service.running import new_engine  # noqa: E402
from perdure.service.state import open_state  # noqa: E402


def main() -> None:
    state = open_state(sys.argv[1], {"PERDURE_DURABILITY": "normal"})
    [row] = state.store.list_runs(open_only=True)
    result = asyncio.run(new_engine(state, park=True).execute(row.run_id))
    state.close()
    entry.leave(0 if result.status == "succeeded" else 1)


main()
