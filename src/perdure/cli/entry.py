"""The console entry.

A command that looks takes a tenth of a second, most of it imports; this is what makes them cheaper:

- asyncio imports `ssl`, which most commands never use: it is loaded at its first use.
- Collecting garbage while modules are loaded finds none, so it begins later.
- A process that is done leaves at once, instead of taking every module apart.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_LATER = {"ssl", "asyncio.sslproto"}
_GARBAGE_THRESHOLD = 20_000


class _Later(ModuleType):
    """Stands for a module until something of it is used, then has all that the real one has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _load(self)
        return getattr(self, name)


def _load(module: ModuleType) -> None:
    from importlib import import_module

    name = module.__name__
    _LATER.discard(name)
    if sys.modules.get(name) is module:
        del sys.modules[name]
    module.__dict__.update(import_module(name).__dict__)


class _Finder:
    """Finds the modules that are loaded later; the loader too."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, _Finder) if name in _LATER else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return _Later(spec.name)

    @staticmethod
    def exec_module(_module: ModuleType) -> None:
        """Nothing yet."""


def prepare() -> None:
    """Make what this process imports from now on cheaper."""
    gc.set_threshold(_GARBAGE_THRESHOLD, 20, 20)
    sys.meta_path.insert(0, _Finder)


def main() -> None:
    """Run the command line of this process, and end the process with its exit code."""
    prepare()
    from perdure.cli.main import main as run

    try:
        run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        leave(code)
    leave(0)


def leave(code: int) -> None:
    """End the process, unless somebody watches it who wants to write something at its end."""
    watched = sys.gettrace() is not None or sys.getprofile() is not None or "coverage" in sys.modules
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        code = 141
    if watched:
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    main()
