"""The settings that hold, and where each comes from: layers of files, the strongest first, and what is built in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.errors import NotFound, Refused
from perdure.graph.config import Config, merge, read_config, with_whole_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.base.masking import Masker
    from perdure.disk.home import StateHome

_PROJECT_FILES = (".perdure/settings.toml", "fabro.toml")
# Fields of the settings, by the keys that a person writes.
KEYS = {
    "goal": "goal",
    "directory": "directory",
    "model": "llm.model",
    "provider": "llm.provider",
    "fallbacks": "llm.fallbacks",
    "backend": "backend.name",
    "command": "backend.command",
    "script": "backend.script",
    "base_url": "backend.base_url",
    "worktree_mode": "sandbox.local.worktree_mode",
    "sandbox": "sandbox.provider",
    "preserve": "sandbox.preserve",
    "env": "sandbox.env",
    "pass_env": "sandbox.pass_env",
    "setup": "setup.commands",
    "setup_timeout_ms": "setup.timeout_ms",
    "variables": "vars",
    "inputs": "run.inputs",
    "exclude": "checkpoint.exclude_globs",
    "artifacts": "artifacts.include",
    "hooks": "hooks",
    "durability": "store.durability",
    "budget": "budget",
    "agents": "agents",
    "mcp_servers": "mcp_servers",
}
_BUILT_IN: dict[str, Any] = {
    "worktree_mode": "clean",
    "sandbox": "local",
    "setup_timeout_ms": 300_000,
    "durability": "full",
}


class Layer(msgspec.Struct, frozen=True):
    """One file of settings."""

    path: str
    config: Config


class Setting(msgspec.Struct, frozen=True):
    """One setting that holds. `source` is a file, a variable or an option, or `built-in`."""

    key: str
    value: Any
    source: str


def read_settings(path: str, home: StateHome, cwd: str) -> tuple[Config, str, str | None]:
    """All settings for a workflow file, the path of its graph, and the text of its TOML when there is one."""
    own, graph_path, text = _of_workflow(path)
    layers = [*([own] if own is not None else []), *common_layers(home, cwd)]
    return merge(*(each.config for each in layers), Config()), graph_path, text


def layers_for(path: str | None, home: StateHome, cwd: str) -> list[Layer]:
    """The files that hold for a workflow, or for any workflow that is run in this folder; the strongest first."""
    own = _of_workflow(path)[0] if path is not None else None
    return [*([own] if own is not None else []), *common_layers(home, cwd)]


def _of_workflow(path: str) -> tuple[Layer | None, str, str | None]:
    """The settings that belong to a workflow file, the path of its graph, and their text."""
    if not path.endswith(".toml"):
        beside = os.path.join(os.path.dirname(path), "workflow.toml")
        read = read_config(beside)
        if read is None or os.path.abspath(os.path.join(os.path.dirname(path), read[0].graph)) != os.path.abspath(path):
            return None, path, None
        return Layer(beside, with_whole_paths(read[0])), path, read[1]
    read = read_config(path)
    if read is None:
        raise NotFound(f"{path} is not there.")
    config, text = read
    if not config.graph:
        raise Refused(f"{path} names no graph.", hint='Write graph = "workflow.fabro".')
    graph_path = os.path.join(os.path.dirname(path), config.graph)
    if not os.path.isfile(graph_path):
        raise NotFound(f"{path} names the graph {config.graph}, which is not there.")
    return Layer(path, with_whole_paths(config)), graph_path, text


def common_layers(home: StateHome, cwd: str) -> list[Layer]:
    """The project's settings, nearest folder first, and the person's own."""
    paths = [os.path.join(folder, name) for folder in upward(cwd) for name in _PROJECT_FILES]
    found = []
    for path in [*paths, home.settings]:
        read = read_config(path)
        if read is not None:
            found.append(Layer(path, with_whole_paths(read[0])))
    return found


def upward(folder: str) -> list[str]:
    """The folder, the one above it, and so on to the root."""
    folder = os.path.abspath(folder)
    found = [folder]
    while os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        found.append(folder)
    return found


def effective(
    layers: list[Layer], home: StateHome, given: str | None, environ: Mapping[str, str], masker: Masker
) -> list[Setting]:
    """Every setting that somebody made, or that has a value of its own, without secrets. Maps and lists are told entry by entry."""
    found = [Setting("state_home", home.root, _home_source(given, environ))]
    for field, key in KEYS.items():
        found += _settings_of(field, key, layers)
    named = environ.get("PERDURE_DURABILITY", "")
    if named:
        found = [each for each in found if each.key != KEYS["durability"]]
        found.append(Setting(KEYS["durability"], named, "PERDURE_DURABILITY"))
    return [_masked(each, masker) for each in found]


def _settings_of(field: str, key: str, layers: list[Layer]) -> list[Setting]:
    found: dict[Any, Setting] = {}
    for layer in layers:
        value = getattr(layer.config, field)
        if not value:
            continue
        if isinstance(value, dict):
            for name, each in value.items():
                found.setdefault(name, Setting(f"{key}.{name}", each, layer.path))
        elif field in ("exclude", "artifacts"):
            for each in value:
                found.setdefault(each, Setting(key, each, layer.path))
        elif field == "hooks":
            for number, each in enumerate(value):
                found.setdefault(each.name or (layer.path, number), Setting(key, msgspec.to_builtins(each), layer.path))
        else:
            found.setdefault("", Setting(key, value, layer.path))
    if not found and field in _BUILT_IN:
        return [Setting(key, _BUILT_IN[field], "built-in")]
    return list(found.values())


def _home_source(given: str | None, environ: Mapping[str, str]) -> str:
    if given:
        return "--state-dir"
    for name in ("PERDURE_STATE_HOME", "XDG_STATE_HOME"):
        if environ.get(name):
            return name
    return "built-in"


def _masked(setting: Setting, masker: Masker) -> Setting:
    """Without secrets: those that are known, and the value of what is named like one, unless it only says where to take it."""
    value = _unnamed({setting.key.rpartition(".")[2]: setting.value})
    text = msgspec.json.encode(list(value.values()))
    return msgspec.structs.replace(setting, value=msgspec.json.decode(masker.mask(text))[0])


def _unnamed(values: dict[str, Any]) -> dict[str, Any]:
    """The map without what is named like a secret, in maps inside it too."""
    from perdure.base.masking import MASK, is_secret_name

    shown: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            shown[name] = _unnamed(value)
        else:
            is_reference = isinstance(value, str) and value.startswith("${") and value.endswith("}")
            shown[name] = MASK.decode() if is_secret_name(name) and not is_reference else value
    return shown
