"""list, glob, grep: finding files and lines. Nothing inside `.git` is looked at, and links to folders are not followed."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from perdure.agents.tools import paths
from perdure.agents.tools.grep_worker import LIMIT_S
from perdure.agents.tools.output import outcome_of
from perdure.agents.tools.tool import NativeTool, ToolFault, ToolOutcome
from perdure.disk import globs

if TYPE_CHECKING:
    from perdure.agents.tools.paths import Place
    from perdure.agents.tools.tool import Invocation

_ENTRIES = 1_000
_FILES = 1_000
_WORKER = "from perdure.agents.tools.grep_worker import main; main()"
_FOLDER = Meta(description="Folder, relative to the working folder or absolute.")


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `list` takes."""

    path: Annotated[str, _FOLDER] = "."


class GlobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `glob` takes."""

    pattern: Annotated[str, Meta(description="For example src/**/*.py; * stays in one folder.")]
    path: Annotated[str, _FOLDER] = "."


class GrepArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `grep` takes."""

    pattern: Annotated[str, Meta(min_length=1, description="Regular expression of Python, looked for in each line.")]
    path: Annotated[str, Meta(description="A file or a folder.")] = "."
    glob: Annotated[str, Meta(description="Only files that this pattern names, for example **/*.py.")] = "**"
    ignore_case: bool = False


async def list_folder(arguments: ListArguments, call: Invocation) -> ToolOutcome:
    """The entries of one folder, folders first."""
    place = _folder(call, arguments.path)
    try:
        entries = sorted(os.scandir(place.path), key=lambda each: (not each.is_dir(follow_symlinks=False), each.name))
    except OSError as error:
        raise ToolFault(f"{place.inside} cannot be listed: {error.strerror}.") from error
    if not entries:
        return ToolOutcome(f"{place.inside} is empty.")
    lines = [_entry(each) for each in entries[:_ENTRIES]]
    return outcome_of("\n".join(lines) + _more(len(entries), _ENTRIES, "entries"), call)


async def find_files(arguments: GlobArguments, call: Invocation) -> ToolOutcome:
    """Paths from the working folder, the last changed first."""
    place = _folder(call, arguments.path)
    _check_pattern(arguments.pattern)
    found = sorted(globs.files(place.path, arguments.pattern), key=lambda name: (-_changed(place.path, name), name))
    if not found:
        return ToolOutcome(f"No file below {place.inside} is named by {arguments.pattern}.")
    lines = [_shown(call, os.path.join(place.path, name)) for name in found[:_FILES]]
    return outcome_of("\n".join(lines) + _more(len(found), _FILES, "files"), call)


async def search_lines(arguments: GrepArguments, call: Invocation) -> ToolOutcome:
    """Lines as `path:number:text`. A search that takes too long says what it has found."""
    place = paths.locate(call.context, arguments.path)
    _check_pattern(arguments.glob)
    try:
        re.compile(arguments.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolFault(f"{arguments.pattern!r} is no regular expression: {error}.") from error
    if not os.path.exists(place.path):
        raise ToolFault(f"There is no {place.inside}.")
    order = {
        "path": place.path,
        "base": os.path.realpath(call.context.cwd),
        "glob": arguments.glob,
        "pattern": arguments.pattern,
        "flags": int(re.IGNORECASE) if arguments.ignore_case else 0,
        "hidden": [os.path.realpath(each) for each in call.context.hidden],
    }
    lines, why = await _grep(order)
    if not lines and not why:
        return ToolOutcome("No line matches.")
    return outcome_of("\n".join(lines) + why, call)


async def _grep(order: dict[str, Any]) -> tuple[list[str], str]:
    """The lines found, and what is to be said when these are not all.

    A pattern can take for ever, and nothing ends a search in this process; so a process of its own searches, and ends in time."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # or a module of the worktree could stand in for one of ours
        "-c",
        _WORKER,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=os.sep,
        # The package that runs here, wherever the agent's own environment would find another.
        env={
            "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in sys.path if each),
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
        },
    )
    try:
        answer, _ = await process.communicate(msgspec.json.encode(order))
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        return [], f"[ended after {LIMIT_S} s without a result; use a simpler pattern or fewer files]"
    found = msgspec.json.decode(answer)
    return found["lines"], found["why"]


def _folder(call: Invocation, path: str) -> Place:
    place = paths.locate(call.context, path)
    if not os.path.isdir(place.path):
        raise ToolFault(f"{place.inside} is no folder.")
    return place


def _check_pattern(pattern: str) -> None:
    why = globs.problem(pattern)
    if why is not None:
        raise ToolFault(f"The pattern {pattern!r} cannot be used: {why}.")


def _entry(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"{entry.name} -> {os.readlink(entry.path)}"
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    return f"{entry.name}  {entry.stat(follow_symlinks=False).st_size} bytes"


def _shown(call: Invocation, path: str) -> str:
    return os.path.relpath(path, os.path.realpath(call.context.cwd))


def _changed(folder: str, name: str) -> int:
    try:
        return os.lstat(os.path.join(folder, name)).st_mtime_ns
    except OSError:
        return 0


def _more(count: int, limit: int, what: str) -> str:
    return f"\n[{count - limit} more {what}]" if count > limit else ""


LIST = NativeTool("list", "List the entries of a folder.", ListArguments, "read", True, list_folder)
GLOB = NativeTool(
    "glob", "Find files by a pattern of their paths, the last changed first.", GlobArguments, "read", True, find_files
)
GREP = NativeTool(
    "grep",
    "Find lines in files by a regular expression. Binary files are left out.",
    GrepArguments,
    "read",
    True,
    search_lines,
)
