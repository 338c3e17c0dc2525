"""A workflow file and what a person said, made into something that can be run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.errors import NotFound, Refused
from perdure.base.jsonvalue import JSON
from perdure.graph.config import Config, budget_from, command_argv
from perdure.graph.definition import GraphDefinition
from perdure.graph.files import DiskFiles
from perdure.graph.load import InvalidGraph, LoadedGraph, load_graph
from perdure.graph.options import GitMode, Options
from perdure.service.agents import check_agents, with_prices
from perdure.service.secrets import know_secrets
from perdure.service.settings import read_settings, upward

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.disk.home import StateHome
    from perdure.graph.diagnostics import Diagnostic

_ENDINGS = (".fabro", ".dot", ".gv")
_MODES = ("always", "clean", "dirty", "never")


class Request(msgspec.Struct, frozen=True):
    """What a person said on the command line."""

    workflow: str
    cwd: str
    goal: str | None = None
    labels: dict[str, str] = {}
    variables: dict[str, str] = {}
    inputs: dict[str, Any] = {}
    dry_run: bool = False
    auto_approve: bool = False
    retro: bool = True
    model: str = ""
    provider: str = ""
    backend: str = ""
    command: str = ""
    script: str = ""
    sandbox: str = ""
    budget: dict[str, float] = {}
    allow_unknown_cost: bool = False
    in_place: bool = False
    keep_worktree: bool = False
    dialect: str | None = None


class NoSandbox(Refused):
    """The settings want commands to run where this program cannot run them; they never run somewhere else instead."""

    code = "sandbox_unavailable"


class Prepared(msgspec.Struct, frozen=True):
    """A definition that can be submitted, what its run records besides, and what is to be told."""

    definition: Any
    properties: dict[str, JSON]
    record: dict[str, JSON]
    loaded: LoadedGraph
    notices: list[str]


def find_workflow(reference: str, cwd: str, home: StateHome | None = None) -> str:
    """The file of a workflow: a path, or a name in the project's or the person's folder of workflows. Raises `NotFound`."""
    path = os.path.join(cwd, os.path.expanduser(reference))
    if os.path.isfile(path):
        return path
    if os.path.isdir(path):
        found = _in_folder(path)
        if found:
            return found
    looked = [path]
    if os.sep not in reference:
        roots = [
            os.path.join(folder, kind, "workflows")
            for folder in upward(cwd)
            for kind in (".perdure", "fabro", ".fabro")
        ]
        if home is not None:
            roots.append(os.path.join(home.root, "workflows"))
        for root in roots:
            found = _in_folder(os.path.join(root, reference))
            if found:
                return found
        looked += [os.path.join(root, reference) for root in roots[:2]]
    raise NotFound(
        f"There is no workflow {reference}. Looked at: {', '.join(looked)}.", hint="`perdure new graph NAME` makes one."
    )


def known_workflows(cwd: str, home: StateHome) -> list[tuple[str, str]]:
    """Every workflow that can be run by its name from this folder, nearest first, with its file."""
    roots = [
        os.path.join(folder, kind, "workflows") for folder in upward(cwd) for kind in (".perdure", "fabro", ".fabro")
    ]
    found: dict[str, str] = {}
    for root in [*roots, os.path.join(home.root, "workflows")]:
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
            path = _in_folder(os.path.join(root, name))
            if path:
                found.setdefault(name, path)
    return list(found.items())


def _in_folder(folder: str) -> str | None:
    for name in ("workflow.toml", "workflow.fabro", "workflow.dot"):
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


def load_file(
    path: str, *, variables: Mapping[str, str] | None = None, dialect: str | None = None
) -> tuple[LoadedGraph, DiskFiles]:
    """A graph file, checked, and the files that it named."""
    files = DiskFiles()
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is no UTF-8 text: byte {error.start} cannot be read.") from error
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.") from error
    loaded = load_graph(source, path, files, variables=variables, dialect=dialect)
    if loaded.graph is not None:
        _read_children(loaded, files)
    return loaded, files


def _read_children(loaded: LoadedGraph, files: DiskFiles) -> None:
    """Child workflows are read with the parent, so that a run never reads the disk again."""
    assert loaded.graph is not None
    folder = os.path.dirname(loaded.path) or "."
    for holder in [loaded.graph, *loaded.graph.nodes.values()]:
        for key in ("stack.child_workflow", "stack.child_dotfile"):
            reference = holder.text(key)
            if reference and files(reference, folder) is not None:
                text, path = files(reference, folder) or ("", "")
                child = load_graph(text, path, files)
                if child.graph is not None and len(files.read) < 50:
                    _read_children(child, files)


def prepare(request: Request, home: StateHome) -> Prepared:
    """Everything that a run needs. Raises `InvalidGraph` with every finding; then nothing was started."""
    know_secrets(home)
    path = find_workflow(request.workflow, request.cwd, home)
    config, graph_path, toml_text = read_settings(path, home, request.cwd)
    variables = config.variables | request.variables
    loaded, files = load_file(graph_path, variables=variables, dialect=request.dialect)
    if loaded.graph is None or loaded.errors:
        raise InvalidGraph(graph_path, loaded.diagnostics)
    goal = request.goal or goal_of(config, files, path) or loaded.graph.goal
    directory = directory_of(request, config)
    notices = [_no_effect(each) for each in config.without_effect]
    if not request.dry_run:
        check_sandbox(request.sandbox or config.sandbox)
    git, repository, base_branch = git_mode_of(request, config, directory, home, notices)
    options = options_of(request, config, goal, directory, git, repository, prices_of(home))
    check_agents(loaded.graph, options, home)
    options = with_prices(loaded.graph, options)
    definition = GraphDefinition(
        loaded.graph, loaded.source, os.path.abspath(graph_path), loaded.dialect, files.read, options
    )
    slug = _slug(path)
    labels: dict[str, JSON] = dict(request.labels)
    properties: dict[str, JSON] = {
        "settings": _shown(config, options),
        "graph": loaded.graph.to_json(),
        "workflow_source": loaded.source,
        "workflow_config": toml_text,
        "workflow_slug": slug,
        "working_directory": directory,
        "host_repo_path": repository,
        "base_branch": base_branch,
        "labels": labels,
        "goal": goal,
    }
    record: dict[str, JSON] = {
        "goal": goal[:500],
        "labels": labels,
        "workflow_slug": slug.lower(),
        "working_directory": directory,
    }
    return Prepared(definition, properties, record, loaded, notices)


def options_of(
    request: Request,
    config: Config,
    goal: str,
    directory: str,
    git: GitMode,
    repository: str | None,
    prices: dict[str, Any] | None = None,
) -> Options:
    """What a run is told: the command line's word, else the settings'."""
    return Options(
        goal=goal,
        inputs=config.inputs | request.inputs,
        variables=config.variables | request.variables,
        dry_run=request.dry_run,
        auto_approve=request.auto_approve,
        retro=request.retro,
        git=git,
        repository=repository,
        working_directory=directory,
        backend=request.backend or config.backend or ("command" if request.command or config.command else ""),
        command=command_argv(Config(command=request.command)) if request.command else command_argv(config),
        script=os.path.abspath(os.path.join(request.cwd, request.script)) if request.script else config.script or None,
        model=request.model or config.model,
        provider=request.provider or config.provider,
        base_url=config.base_url,
        fallbacks=config.fallbacks,
        budget=budget_from(config.budget | request.budget),
        prices=prices or {},
        allow_unknown_cost=request.allow_unknown_cost,
        agents=config.agents,
        mcp_servers=config.mcp_servers,
        env=config.env,
        pass_env=config.pass_env,
        setup=config.setup,
        setup_timeout_ms=config.setup_timeout_ms or 300_000,
        exclude=config.exclude,
        artifacts=config.artifacts,
        hooks=config.hooks,
        keep_worktree=request.keep_worktree or config.preserve,
    )


def prices_of(home: StateHome) -> dict[str, Any]:
    """The person's own prices as they are now: a run keeps those that it began with. Raises `BadPrices`."""
    path = f"{home.root}/prices.json"
    if not os.path.lexists(path):
        return {}
    from perdure.llm.prices import read_overrides

    return {name: msgspec.to_builtins(price) for name, price in read_overrides(path).items()}


def check_sandbox(provider: str) -> None:
    """Commands run on this machine. Raises `NoSandbox` when they are to run elsewhere."""
    if provider not in ("", "local"):
        raise NoSandbox(
            f"The sandbox {provider!r} is wanted, and commands can run on this machine only.",
            hint="Pass --sandbox local, or take [sandbox] provider out, if they may run here.",
        )


def settings_diagnostics(config: Config) -> list[Diagnostic]:
    """What is to be said of the settings beside the graph's own findings."""
    from perdure.graph.diagnostics import error, warning

    found = [warning("setting_without_effect", _no_effect(each)) for each in config.without_effect]
    try:
        check_sandbox(config.sandbox)
    except NoSandbox as problem:
        found.append(error("sandbox_unavailable", problem.message, fix=problem.hint))
    return found


def _no_effect(table: str) -> str:
    return f"The setting [{table}] has no effect here."


def goal_of(config: Config, files: DiskFiles, path: str) -> str:
    """What the settings say that a run is for. Raises `NotFound` when that is in a file that is not there."""
    if not config.goal.startswith("@"):
        return config.goal
    found = files(config.goal[1:], os.path.dirname(path) or ".")
    if found is None:
        raise NotFound(f"The goal names the file {config.goal[1:]}, which is not there.")
    return found[0]


def directory_of(request: Request, config: Config) -> str:
    """The folder that a run works in, or from. Raises `NotFound`."""
    directory = config.directory or os.path.abspath(request.cwd)
    if not os.path.isdir(directory):
        raise NotFound(f"The working directory {directory} is not there.")
    return directory


def git_mode_of(
    request: Request, config: Config, directory: str, home: StateHome, notices: list[str]
) -> tuple[GitMode, str | None, str | None]:
    """Whether the run works in a worktree of its own, the repository, and its branch."""
    from perdure.disk.boundary import check_state_outside
    from perdure.git.repository import find_repository

    mode = config.worktree_mode or "clean"
    if mode not in _MODES:
        raise Refused(f"There is no worktree_mode {mode!r}.", hint=f"One of {', '.join(_MODES)}.")
    repository = find_repository(directory)
    if repository is not None:
        check_state_outside(home.root, repository.root)
    if repository is None or request.dry_run:
        return "none", repository.root if repository else None, repository.branch if repository else None
    wanted = {"always": True, "never": False, "clean": repository.is_clean, "dirty": not repository.is_clean}[mode]
    if request.in_place or not wanted or repository.base_sha is None:
        if not request.in_place and mode == "clean" and repository.base_sha is not None:
            notices.append(
                "The working tree has changes that are not committed: the run works in place, without checkpoints in Git."
            )
        return "in_place", repository.root, repository.branch
    return "worktree", repository.root, repository.branch


def _slug(path: str) -> str:
    name = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(os.path.abspath(path))) if name == "workflow" else name


def _shown(config: Config, options: Options) -> dict[str, JSON]:
    """The resolved settings as `run.json` shows them."""
    shown: dict[str, JSON] = msgspec.to_builtins(options)
    shown.pop("inputs", None)
    return shown | {"inputs": dict(options.inputs), "worktree_mode": config.worktree_mode or "clean"}
