"""All that a run needs, checked without running and without changing anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from perdure.base.errors import PerdureError
from perdure.disk.home import StateHome, find_state_home
from perdure.service import workflows
from perdure.service.agents import check_agents
from perdure.service.secrets import know_secrets
from perdure.service.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perdure.graph.config import Config
    from perdure.graph.load import LoadedGraph
    from perdure.graph.model import Graph
    from perdure.graph.options import GitMode
    from perdure.service.workflows import Request

T = TypeVar("T")


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at: `ok`, `warn` (a run goes on all the same) or `failed`."""

    name: str
    level: Literal["ok", "warn", "failed"]
    text: str


def preflight(request: Request, given: str | None, environ: Mapping[str, str]) -> list[Check]:
    """Every check, in the order in which a run needs them. What cannot be looked at without something that failed is left out."""
    checks: list[Check] = []
    home = _tried(checks, "state home", lambda: find_state_home(given, environ))
    if home is None:
        return checks
    checks.append(_home(home, environ))
    path = _tried(checks, "workflow", lambda: workflows.find_workflow(request.workflow, request.cwd, home))
    if path is None:
        return checks
    read = _tried(checks, "settings", lambda: read_settings(path, home, request.cwd))
    if read is None:
        return checks
    config, graph_path, _text = read
    checks.append(Check("settings", "ok", f"{len(config.hooks)} hooks, {len(config.setup)} setup commands"))
    variables = config.variables | request.variables
    loading = _tried(
        checks,
        "graph",
        lambda: workflows.load_file(graph_path, variables=variables, dialect=request.dialect),
    )
    if loading is not None:
        checks += _graph(loading[0])
    checks += _sandbox(request, config)
    found = _repository(checks, request, config, home)
    if loading is not None and loading[0].graph is not None and found is not None:
        goal = _tried(checks, "goal", lambda: request.goal or workflows.goal_of(config, loading[1], path))
        checks += _agents(request, config, loading[0].graph, goal or "", found, home)
    return checks


def _tried(checks: list[Check], name: str, call: Callable[[], T]) -> T | None:
    """What the call gives; when it refuses, that is a failed check, and None."""
    try:
        return call()
    except PerdureError as error:
        checks.append(Check(name, "failed", str(error)))
        return None


def _home(home: StateHome, environ: Mapping[str, str]) -> Check:
    """The state can be written, and the store can be opened."""
    from perdure.service.state import find_durability, open_state_to_read

    try:
        know_secrets(home)
        find_durability(home, environ)
        open_state_to_read(home.root, environ).close()
    except PerdureError as error:
        return Check("state home", "failed", str(error))
    folder = home.root
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check("state home", "failed", f"{folder} cannot be written.")
    return Check("state home", "ok", home.root if folder == home.root else f"{home.root} (not made yet)")


def _graph(loaded: LoadedGraph) -> list[Check]:
    found = [
        Check("graph", "failed" if each.severity == "error" else "warn", each.text()) for each in loaded.diagnostics
    ]
    if loaded.graph is not None and not loaded.errors:
        graph = loaded.graph
        found.append(Check("graph", "ok", f"{graph.name}: {len(graph.nodes)} nodes, {len(graph.edges)} edges"))
    return found


def _sandbox(request: Request, config: Config) -> list[Check]:
    found = [Check("settings", "warn", f"[{each}] has no effect here.") for each in config.without_effect]
    try:
        workflows.check_sandbox(request.sandbox or config.sandbox)
    except PerdureError as error:
        return [*found, Check("sandbox", "failed", str(error))]
    return [*found, Check("sandbox", "ok", "commands run on this machine")]


def _repository(
    checks: list[Check], request: Request, config: Config, home: StateHome
) -> tuple[str, GitMode, str | None] | None:
    """The working folder and what a run does in Git there."""
    notices: list[str] = []
    directory = _tried(checks, "working folder", lambda: workflows.directory_of(request, config))
    if directory is None:
        return None
    mode = _tried(checks, "repository", lambda: workflows.git_mode_of(request, config, directory, home, notices))
    if mode is None:
        return None
    git, repository, branch = mode
    checks.append(Check("working folder", "ok", directory))
    checks += [Check("repository", "warn", each) for each in notices]
    if repository is None:
        checks.append(Check("repository", "ok", "none: no checkpoints in Git"))
    elif not notices:
        what = "a worktree of its own" if git == "worktree" else "the folder itself, without checkpoints in Git"
        checks.append(Check("repository", "ok", f"{repository} on {branch or 'no branch'}; a run works in {what}"))
    return directory, git, repository


def _agents(
    request: Request, config: Config, graph: Graph, goal: str, found: tuple[str, GitMode, str | None], home: StateHome
) -> list[Check]:
    """Agents can be asked, and the programs that a run starts are there."""
    directory, git, repository = found
    checks: list[Check] = []
    options = _tried(
        checks,
        "backend",
        lambda: workflows.options_of(request, config, goal, directory, git, repository, workflows.prices_of(home)),
    )
    if options is None:
        return checks
    try:
        check_agents(graph, options, home)
        asks = any(node.handler in ("agent", "prompt") for node in graph.nodes.values())
        checks.append(Check("backend", "ok", (options.backend or "command") if asks else "no node asks an agent"))
    except PerdureError as error:
        checks.append(Check("backend", "failed", str(error)))
    wanted = {"bash": "warn"}
    if repository is not None:
        wanted["git"] = "failed"
    if options.command and not request.dry_run:
        wanted[options.command[0]] = "failed"
    return checks + [_program(name, missing) for name, missing in wanted.items()]


def _program(name: str, missing: str) -> Check:
    from perdure.sandbox.command import find_program

    path = find_program(name, os.environ.get("PATH"))
    if path is not None:
        return Check("programs", "ok", f"{name}: {path}")
    text = f"{name} is not on PATH" + ("; scripts run with sh" if name == "bash" else "")
    return Check("programs", "failed" if missing == "failed" else "warn", text)
