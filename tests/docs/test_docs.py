"""The reference pages say all that the program has, and nothing that it has not."""

import ast
import importlib
import importlib.util
import json
import pkgutil
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import perdure as package
from perdure.base.errors import PerdureError
from perdure.kernel.lifecycle import TRANSITIONS
from perdure.service.running import EXIT_CODES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "perdure"

_EVENT = re.compile(r"(?!kernel\.)[a-z]+(\.[a-z_]+)+")
# Made from parts where they are written.
_COMPOSED = {f"{first}.{second}" for first in ("command", "setup.command") for second in ("started", "completed")} | {
    f"run.{request}_requested" for request in ("cancel", "pause", "steer")
}


@cache
def _text(page: str) -> str:
    return (DOCS / "reference" / page).read_text(encoding="utf-8")


@cache
def _words(page: str) -> frozenset[str]:
    """What stands in backticks on a page, each piece for itself too."""
    found = re.findall(r"`([^`\n]+)`", _text(page))
    return frozenset(found) | {piece for each in found for piece in re.split(r"[\s/,=:|]+", each)}


@cache
def _strings() -> frozenset[str]:
    """Every string of the program's source that is not a docstring."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    return frozenset(found)


def _given_to(*functions: str) -> set[str]:
    """The strings in the arguments of calls of these functions, choices between two as well."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in functions:
                given = [each for argument in node.args for each in ast.walk(argument)]
                found |= {
                    each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    return found


def _emitted() -> set[str]:
    """The names of events that are given to what writes them."""
    named = _given_to("emit", "add", "_first_event", "EventRow")
    return {name for name in named if _EVENT.fullmatch(name)} | _COMPOSED


def _documented_events() -> dict[str, frozenset[str]]:
    """The events of the page, each with the words in backticks of its section."""
    parts = re.split(r"^### `([^`]+)`$", _text("events.md"), flags=re.MULTILINE)
    return {
        name: frozenset(re.findall(r"`([^`\n]+)`", body)) for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _errors() -> Iterator[type[PerdureError]]:
    for module in pkgutil.walk_packages(package.__path__, "perdure."):
        importlib.import_module(module.name)
    waiting: list[type[PerdureError]] = [PerdureError]
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if error.__module__.startswith("perdure."):
            yield error


def _rows(page: str) -> dict[str, list[str]]:
    """The rows of a page's tables by their first cell, without its backticks."""
    found = {}
    for line in _text(page).splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            found[cells[0].strip("` ")] = cells[1:]
    return found


def _reference_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_cli_reference", ROOT / "tools" / "write_cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_what_the_program_says() -> None:
    """`make docs` writes it again."""
    assert _reference_writer().page() == _text("cli.md")


def test_every_command_and_option_says_what_it_is_for() -> None:
    silent = []
    for name, command, _context in _reference_writer().commands():
        if not command.help:
            silent.append(name)
        silent += [
            f"{name} {each.opts[0]}" for each in command.params if isinstance(each, click.Option) and not each.help
        ]

    assert silent == []


def test_every_event_that_the_program_writes_is_in_the_catalog() -> None:
    assert _emitted() - _documented_events().keys() == set()


def test_the_catalog_has_no_event_that_the_program_does_not_know() -> None:
    assert _documented_events().keys() - _strings() - _COMPOSED == set()


def test_every_property_of_a_real_runs_events_is_in_the_catalog(perdure: Callable[..., Any], repository: Path) -> None:
    """A run with commands, an agent, a loop, branches, a gate, set-up and a child, in a repository."""
    for name, text in _RUN.items():
        (repository / name).write_text(text)
    _commit(repository)
    perdure("run", "workflow.toml", "--auto-approve", "--backend", "simulated", cwd=repository).succeeded()
    [log] = (repository.parent / "state" / "runs").glob("*/progress.jsonl")
    documented = _documented_events()
    missing = set()
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        missing |= {(event["event"], key) for key in event["properties"].keys() - documented[event["event"]]}

    assert missing == set()


def test_every_file_of_a_real_runs_directory_is_on_its_page(perdure: Callable[..., Any], repository: Path) -> None:
    for name, text in _RUN.items():
        (repository / name).write_text(text)
    _commit(repository)
    perdure("run", "workflow.toml", "--auto-approve", "--backend", "simulated", cwd=repository).succeeded()
    [run_dir] = (repository.parent / "state" / "runs").iterdir()
    names = {path.name for path in run_dir.rglob("*") if path.is_file() and "files" not in path.parts}

    assert names - _words("run-directory.md") == set()


def test_every_file_that_a_view_names_is_on_the_page_of_the_run_directory() -> None:
    named = set()
    for path in (SOURCE / "views").glob("*.py"):
        found = re.findall(
            r"[\"/}]([a-z_]+\.(?:json|jsonl|log|md|patch|toml|fabro|claim))\"", path.read_text(encoding="utf-8")
        )
        named |= set(found)

    assert named - _words("run-directory.md") == set()


def test_every_error_code_is_on_its_page_with_its_exit_code() -> None:
    rows = _rows("errors.md")
    missing = {
        error.code: error.exit_code for error in _errors() if rows.get(error.code, [""])[0] != str(error.exit_code)
    }

    assert missing == {}


def test_the_page_of_errors_has_no_code_that_the_program_does_not_know() -> None:
    assert _rows("errors.md").keys() - _strings() == set()


def test_every_exit_code_is_on_its_page() -> None:
    used = {str(error.exit_code) for error in _errors()} | {str(code) for code in EXIT_CODES.values()} | {"130"}

    assert used - _rows("exit-codes.md").keys() == set()


def test_every_run_status_is_on_its_page() -> None:
    assert set(TRANSITIONS) | {"interrupted"} <= _rows("run-status.md").keys()


def test_every_reason_for_a_runs_end_is_on_its_page() -> None:
    reasons = set()
    for path in (SOURCE / "graph").rglob("*.py"):
        reasons |= set(re.findall(r'reason="([a-z_]+)"', path.read_text(encoding="utf-8")))
        reasons |= set(re.findall(r'Outcome\("failed", "([a-z_]+)"', path.read_text(encoding="utf-8")))

    assert reasons - _words("run-status.md") == set()


def test_every_variable_of_the_environment_is_on_the_page_of_settings() -> None:
    named = {each for each in _strings() if re.fullmatch(r"PERDURE_[A-Z_]+", each)}

    assert named - _words("settings.md") == set()


def test_every_key_of_a_settings_file_is_on_the_page_of_settings() -> None:
    """The keys that the reader of settings asks for, and the fields of a hook."""
    from perdure.graph.options import Hook

    text = (SOURCE / "graph" / "config.py").read_text(encoding="utf-8")
    keys = set(re.findall(r"""(?:\.get\(|_texts\(|_table\([^"]*?(?:\)[^"]*?)?)"([a-z_]+)\"""", text)) | set(
        Hook.__struct_fields__
    )

    assert keys - {re.sub(r"[\[\]]", "", piece) for word in _words("settings.md") for piece in word.split(".")} == set()


def _pages() -> list[Path]:
    return [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_something(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
        link = target[0] or target[1]
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in _anchors(path)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_project_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:src|tests|docs|tools|examples|benchmarks|requirements)/[\w./-]+)`", page.read_text(encoding="utf-8")
    )

    # Capitals stand for a name that the reader chooses.
    assert [name for name in named if name.islower() and not (ROOT / name).exists()] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        for link in re.findall(r"\]\(([^)\s#]+\.md)", page.read_text(encoding="utf-8")):
            waiting.append((page.parent / link).resolve())

    assert {page for page in DOCS.rglob("*.md") if page not in reached} == set()


def test_the_lock_files_do_not_say_where_packages_come_from() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "requirements").glob("*.lock")))

    assert re.findall(r"\w+://\S+|^--\S+.*", text, flags=re.MULTILINE) == []


def test_the_lock_files_hold_every_package_that_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name, wanted in (("run", project["project"]["dependencies"]), ("dev", project["dependency-groups"]["dev"])):
        locked = set(
            re.findall(
                r"^([\w-]+)==", (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8"), re.MULTILINE
            )
        )

        assert {re.split(r"[><=~]", each)[0] for each in wanted} - locked == set()


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from their texts."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _commit(repository: Path) -> None:
    import subprocess

    subprocess.run(["git", "add", "."], cwd=repository, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "Add a workflow"], cwd=repository, check=True)


_RUN = {
    "workflow.toml": """
version = 1
graph = "workflow.fabro"
[setup]
commands = ["true"]
[artifacts]
include = ["*.txt"]
""",
    "workflow.fabro": """
digraph Everything {
  graph [goal="Use everything"]
  start [shape=Mdiamond]
  exit [shape=Msquare]
  make [shape=parallelogram, script="echo made > made.txt"]
  fail [shape=parallelogram, script="test -e again.txt || { touch again.txt; exit 1; }", max_visits=3]
  agent [prompt="Do it"]
  fork [shape=component]
  a [shape=parallelogram, script="echo a"]
  b [shape=parallelogram, script="echo b"]
  join [shape=tripleoctagon]
  pause [shape=insulator, duration="1ms"]
  child [shape=house, stack.child_workflow="child.fabro"]
  gate [shape=hexagon, label="Good?"]
  start -> make -> fail
  fail -> fork [condition="outcome=succeeded"]
  fail -> fail [condition="outcome=failed"]
  fork -> a
  fork -> b
  a -> join
  b -> join
  join -> agent -> pause -> child -> gate
  gate -> exit [label="[Y] Yes"]
  gate -> make [label="[N] No"]
}
""",
    "child.fabro": """
digraph Child {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  work [shape=parallelogram, script="echo child"]
  start -> work -> exit
}
""",
}
