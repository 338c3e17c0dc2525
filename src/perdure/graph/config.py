"""Settings of a graph run: `workflow.toml` of both eras, the project's and the person's own, and which of them wins.

The command line beats the workflow's TOML, which beats the project's `.perdure/settings.toml` (or `fabro.toml`), which beats the
person's `settings.toml`, which beats the graph's `default_*`. Maps are merged key by key, lists of patterns are joined.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from perdure.agents.budget import Budget
from perdure.base.errors import Refused
from perdure.graph.hook_rules import parse_hook
from perdure.graph.options import Hook


class Config(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a layer of settings says; empty where it says nothing."""

    graph: str = ""
    goal: str = ""
    directory: str = ""
    model: str = ""
    provider: str = ""
    fallbacks: dict[str, list[str]] = {}
    backend: str = ""
    command: str = ""
    script: str = ""
    base_url: str = ""
    worktree_mode: str = ""
    sandbox: str = ""
    preserve: bool = False
    setup: list[str] = []
    setup_timeout_ms: int = 0
    env: dict[str, str] = {}
    pass_env: list[str] = []
    variables: dict[str, str] = {}
    inputs: dict[str, Any] = {}
    exclude: list[str] = []
    artifacts: list[str] = []
    hooks: list[Hook] = []
    durability: str = ""
    budget: dict[str, float] = {}
    agents: dict[str, Any] = {}
    mcp_servers: dict[str, Any] = {}
    without_effect: list[str] = []
    folder: str = ""


class BadConfig(Refused):
    """A settings file that cannot be used."""

    code = "bad_config"


def read_config(path: str) -> tuple[Config, str] | None:
    """The settings of a TOML file and its text; None when it is not there. Raises `BadConfig` with line and column."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}.") from error
    import tomllib

    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{path}: {error}.") from error
    return parse_config(value, path), text


def parse_config(value: dict[str, Any], path: str) -> Config:
    """The settings in a parsed TOML file. Keys that nobody knows are left alone; another version is refused."""
    version = value.get("version", value.get("_version", 1))
    if version != 1:
        raise BadConfig(f"{path} has version {version}; this Perdure reads version 1.")
    run = _table(value, "run")
    llm = _table(value, "llm") | _table(run, "model")
    sandbox = _table(value, "sandbox") | _table(run, "sandbox")
    setup = _table(value, "setup") | _table(run, "setup")
    backend = _table(value, "backend")
    workflow = _table(value, "workflow")
    try:
        return Config(
            graph=_text(value.get("graph") or workflow.get("graph")),
            goal=_text(value.get("goal") or run.get("goal")),
            directory=_text(value.get("directory") or run.get("working_dir")),
            model=_text(llm.get("model") or llm.get("name")),
            provider=_text(llm.get("provider")),
            fallbacks=_fallbacks(llm.get("fallbacks", [])),
            backend=_text(backend.get("name")),
            command=_text(backend.get("command")),
            script=_text(backend.get("script")),
            base_url=_text(backend.get("base_url")),
            worktree_mode=_text(_table(sandbox, "local").get("worktree_mode")),
            sandbox=_text(sandbox.get("provider")),
            preserve=sandbox.get("preserve") is True,
            setup=_texts("commands", setup),
            setup_timeout_ms=int(setup.get("timeout_ms", 0)),
            env={key: str(each) for key, each in _table(sandbox, "env").items()},
            pass_env=_texts("pass_env", sandbox),
            variables={key: str(each) for key, each in (_table(value, "vars") | _table(run, "vars")).items()},
            inputs=_table(run, "inputs"),
            exclude=_texts("exclude_globs", _table(value, "checkpoint")),
            artifacts=_texts("include", _table(value, "artifacts")),
            hooks=[parse_hook(each, number) for number, each in enumerate(value.get("hooks", []), 1)],
            durability=_text(_table(value, "store").get("durability")),
            budget=_table(value, "budget"),
            agents=_table(value, "agents"),
            mcp_servers=_table(value, "mcp_servers"),
            without_effect=_without_effect(value, sandbox),
            folder=os.path.dirname(path),
        )
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BadConfig(f"{path}: {error}.") from error


def _without_effect(value: dict[str, Any], sandbox: dict[str, Any]) -> list[str]:
    """The tables that other tools act on and this one does not; a person is told, so that nobody relies on them."""
    found = [name for name in ("pull_request", "github") if value.get(name)]
    return found + [f"sandbox.{name}" for name in ("docker", "daytona", "devcontainer") if sandbox.get(name)]


def merge(*layers: Config) -> Config:
    """One set of settings out of several, the strongest first."""
    merged: dict[str, Any] = {}
    for name in Config.__struct_fields__:
        values = [getattr(layer, name) for layer in layers]
        if isinstance(values[0], dict):
            merged[name] = {key: each for value in reversed(values) for key, each in value.items()}
        elif name in ("exclude", "artifacts", "without_effect"):
            merged[name] = list(dict.fromkeys(each for value in values for each in value))
        elif name == "hooks":
            merged[name] = _merged_hooks(values)
        elif name != "folder":
            merged[name] = next((value for value in values if value), values[0])
    return Config(**merged)


def _merged_hooks(layers: list[list[Hook]]) -> list[Hook]:
    """Hooks of all layers; of those with one name the strongest layer's."""
    found: dict[object, Hook] = {}
    for number, layer in enumerate(reversed(layers)):
        for place, hook in enumerate(layer):
            found[hook.name or (number, place)] = hook
    return list(found.values())


def command_argv(config: Config) -> list[str]:
    """The backend's command as a list of words; one that names a file beside the settings becomes that file's path."""
    import shlex

    try:
        words = shlex.split(config.command)
    except ValueError as error:
        raise BadConfig(f"The backend's command {config.command!r} cannot be split: {error}.") from error
    return words


def with_whole_paths(config: Config) -> Config:
    """The settings with what lies in their own folder named by whole paths: the directory, the backend's files."""
    import shlex

    words = [_beside(config.folder, word) for word in command_argv(config)]
    return msgspec.structs.replace(
        config,
        command=shlex.join(words),
        script=_beside(config.folder, config.script) if config.script else "",
        directory=os.path.abspath(os.path.join(config.folder, config.directory)) if config.directory else "",
    )


def _beside(folder: str, word: str) -> str:
    path = os.path.abspath(os.path.join(folder, word))
    return path if not os.path.isabs(word) and os.path.isfile(path) else word


def _table(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _texts(key: str, table: dict[str, Any]) -> list[str]:
    """A list of texts; a text alone would be taken for a list of its letters."""
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TypeError(f"{key} is {found!r}, not a list of texts")
    return list(found)


def budget_from(limits: dict[str, Any]) -> Budget:
    """The budget with these limits. Raises `BadConfig`: one that is no number, or of a name that nobody knows, would be no limit."""
    for name, each in limits.items():
        if name not in Budget.__struct_fields__:
            raise BadConfig(f"There is no budget in {name!r}.", hint=f"Known: {', '.join(Budget.__struct_fields__)}.")
        kinds = (int, float) if name == "usd" else (int,)
        if isinstance(each, bool) or not isinstance(each, kinds) or each < 0:
            raise BadConfig(f"The budget {name} is {each!r}; it is a number of 0 or more.")
    return Budget(**limits)


def _fallbacks(value: Any) -> dict[str, list[str]]:
    """Who answers when a backend cannot: a list for all (`*`), or a list for each backend."""
    if isinstance(value, dict):
        return {key: _texts(key, value) for key in value}
    found = _texts("fallbacks", {"fallbacks": value})
    return {"*": found} if found else {}


def _text(value: object) -> str:
    return "" if value is None else str(value)
