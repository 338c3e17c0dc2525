"""`limits.json` of the state home: how many agents may work at once on each backend, and how large their conversations may grow.

A file that is not wholly understood is refused, as a limit that is overlooked is none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping

import msgspec

from perdure.base.errors import Refused
from perdure.base.jsonvalue import JSON

MAX_BYTES = 64 * 1024
MOST_SLOTS = 100_000
_FIELDS = ("backends", "agentSessions")
_SESSION_FIELDS = ("enabled", "maxBytes", "targetBytes")
_LARGEST = 2**63 - 1


class BadLimits(Refused):
    """`limits.json` cannot be used; nothing is started without it."""

    code = "bad_limits"


class AgentSessions(msgspec.Struct, frozen=True):
    """Whether conversations are kept, when their folder is too large (`max_bytes`), and how large it is after a clean-up
    (`target_bytes`)."""

    enabled: bool = True
    max_bytes: int = 1024 * 1024 * 1024
    target_bytes: int = 768 * 1024 * 1024


class Limits(msgspec.Struct, frozen=True):
    """What the file says. A backend that it does not name has no limit."""

    backends: Mapping[str, int] = {}
    agent_sessions: AgentSessions = AgentSessions()


NO_LIMITS = Limits()


def read_limits(path: str, known: Collection[str]) -> Limits:
    """The limits that hold now; none when there is no file. `known` are the names of all backends. Raises `BadLimits`."""
    content = _content(path)
    return NO_LIMITS if content is None else parse_limits(content, path, known)


def _content(path: str) -> bytes | None:
    """The bytes of a regular file; a link is not followed, and a pipe is not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        if os.path.islink(path):
            raise _no_file(path) from error
        raise BadLimits(f"{path} cannot be read: {error.strerror}.", hint="Check its owner and its mode.") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _no_file(path)
        with os.fdopen(os.dup(handle), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(content) > MAX_BYTES:
        raise BadLimits(f"{path} is larger than {MAX_BYTES // 1024} KiB.", hint="It holds a few numbers only.")
    return content


def _no_file(path: str) -> BadLimits:
    return BadLimits(f"{path} is not a regular file.", hint="A link is not followed; put the file itself there.")


def parse_limits(content: bytes, path: str, known: Collection[str]) -> Limits:
    """What the content of the file means. Raises `BadLimits`."""
    value = _decoded(content, path)
    fields = _object(value, path, "")
    _check_fields(fields, _FIELDS, path, "")
    backends = {
        name: _slots(number, path, name, known)
        for name, number in _object(fields.get("backends", {}), path, "backends").items()
    }
    return Limits(backends, _sessions(fields.get("agentSessions", {}), path))


def _decoded(content: bytes, path: str) -> JSON:
    import json

    try:
        value: JSON = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise BadLimits(f"{path} is not valid JSON: it is no UTF-8 at byte {error.start}.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadLimits(f"{path} is not valid JSON: {error.msg} ({where}).") from error
    except (_TwiceError, RecursionError, ValueError) as error:
        raise BadLimits(f"{path} is not valid JSON: {error}.") from error
    return value


class _TwiceError(Exception):
    """A field stands twice in one object; which of the two holds is not known."""


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(f"the field {name!r} is there twice")
        found[name] = value
    return found


def _object(value: JSON, path: str, where: str) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise BadLimits(f"{path}: {where or 'the file'} is {_shown(value)}, not an object.")
    return value


def _check_fields(found: Collection[str], known: tuple[str, ...], path: str, where: str) -> None:
    for name in found:
        if name not in known:
            place = f"{where}: " if where else ""
            raise BadLimits(f"{path}: {place}unknown field {name!r}.", hint=f"Known: {', '.join(known)}.")


def _slots(number: JSON, path: str, name: str, known: Collection[str]) -> int:
    if name not in known:
        raise BadLimits(
            f"{path}: backends: unknown variant {name!r}; there is no such backend.",
            hint=f"Known: {', '.join(known)}.",
        )
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_SLOTS:
        raise BadLimits(
            f"{path}: backends.{name} is {_shown(number)}; a limit is a whole number between 1 and {MOST_SLOTS}.",
            hint="Take the entry out for no limit.",
        )
    return number


def _sessions(value: JSON, path: str) -> AgentSessions:
    fields = _object(value, path, "agentSessions")
    _check_fields(fields, _SESSION_FIELDS, path, "agentSessions")
    default = AgentSessions()
    enabled = fields.get("enabled", default.enabled)
    if not isinstance(enabled, bool):
        raise BadLimits(f"{path}: agentSessions.enabled is {_shown(enabled)}; it is true or false.")
    most = _bytes(fields, "maxBytes", default.max_bytes, path)
    # Three quarters, as by default, when only the most is given.
    target = _bytes(fields, "targetBytes", max(1, most * 3 // 4), path, least=0)
    if target >= most and not (most == 1 and "targetBytes" not in fields):
        raise BadLimits(f"{path}: agentSessions.targetBytes is {target}; it must be lower than maxBytes, {most}.")
    return AgentSessions(enabled, most, min(target, most - 1))


def _bytes(fields: dict[str, JSON], name: str, default: int, path: str, *, least: int = 1) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
        raise BadLimits(
            f"{path}: agentSessions.{name} is {_shown(value)}; it is a whole number of bytes, {least} or more."
        )
    return value


def _shown(value: JSON) -> str:
    """A value in a message, not longer than a line."""
    text = {None: "null", True: "true", False: "false"}.get(value) if value is None or isinstance(value, bool) else None
    if text is None:
        text = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
