"""What a command does not need, it does not import: a list should be there in the time of a blink."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Model, web, database-server and terminal libraries, and what takes long to import.
HEAVY = frozenset(
    {
        "anthropic", "openai", "httpx2", "httpx", "httpcore2", "mcp", "pydantic", "textual", "rich", "starlette", "uvicorn",
        "psycopg", "minijinja", "psutil", "watchfiles", "anyio", "asyncio", "logging", "tomllib", "http.client",
        "urllib.request", "multiprocessing",
    }
)  # fmt: skip
# One look at the log, no execution.
LOOKING = (
    ["--help"], ["--version"], ["ps"], ["ps", "-a", "--json"], ["show", "RUN"], ["show", "RUN", "--json"], ["session", "list"],
)  # fmt: skip
_GRAPH = "digraph G { start [shape=Mdiamond]; exit [shape=Msquare]; a [shape=parallelogram, script=true]; start -> a -> exit }"
_PROGRAM = """
import sys
from perdure.cli.main import run
code = run(sys.argv[1:])
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def run_id(perdure: Callable[..., Any], tmp_path: Path) -> str:
    """A run that has ended."""
    (tmp_path / "graph.fabro").write_text(_GRAPH)
    found: str = perdure("run", "graph.fabro", "--json").succeeded().json["run_id"]
    return found


def _imported(arguments: list[str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, encoding="utf-8", check=True, timeout=30
    )
    return set(done.stderr.split())


def _commands() -> list[str]:
    import click

    from perdure.cli.main import cli

    return cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_a_command_that_only_looks_imports_nothing_heavy(arguments: list[str], run_id: str) -> None:
    assert _imported([run_id if each == "RUN" else each for each in arguments]) & HEAVY == set()


@pytest.mark.parametrize("command", _commands())
def test_the_help_of_a_command_imports_no_part_of_the_engine(command: str) -> None:
    imported = _imported([command, "--help"])

    assert {
        each for each in imported if each.startswith(("perdure.kernel", "perdure.graph.", "perdure.store"))
    } == set()
    assert imported & HEAVY == set()


def test_importing_the_package_imports_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, perdure; print(*sys.modules)"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert {each for each in done.stdout.split() if each.startswith("perdure.")} == set()
