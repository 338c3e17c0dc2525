"""`agent-grants.json`: which agent may use which tool, kept for a workspace. Whatever does not fit exactly refuses everything.

The file is for its owner only, replaced as a whole under `agent-grants.json.lock`. That lock is never taken over: when its process
is gone, a person removes it, since half a change of rights is worse than none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from perdure.base.errors import NotFound, Refused
from perdure.base.ids import now_ms
from perdure.disk.atomic import private_folder, replace
from perdure.disk.lock import PidLock

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "agent-grants.json"
FORMAT: Literal["agent-grants/1"] = "agent-grants/1"
_LOCK_LIMIT_S = 5.0
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_MAX_BYTES = 16 * 1024 * 1024
R = TypeVar("R")


class _Record(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class Once(_Record, frozen=True, tag_field="kind", tag="once"):
    """For one call."""


class Session(_Record, frozen=True, tag_field="kind", tag="session"):
    """For the calls of one session."""

    scope_id: str


class Persistent(_Record, frozen=True, tag_field="kind", tag="persistent"):
    """Until it is revoked."""


Lifetime = Once | Session | Persistent
Provenance = Literal["human", "profile", "certificate", "system"]


class Grant(_Record, frozen=True):
    """A right: `address` is the agent's id, `capability` what it may do. Times in epoch milliseconds; `revision` counts changes."""

    id: str
    address: str
    capability: str
    lifetime: Lifetime
    provenance: Provenance
    issued_at: int
    revision: int
    expires_at: int | None = None


class Claim(_Record, frozen=True):
    """The call that used up a grant for one call."""

    invocation_id: str
    claimed_at: int


class SavedGrant(_Record, frozen=True):
    """A grant and what became of it."""

    grant: Grant
    revoked: bool
    claim: Claim | None = None


class _File(_Record, frozen=True):
    format: Literal["agent-grants/1"]
    sequence: int
    grants: list[SavedGrant]


class GrantsInvalid(Refused):
    """The file of grants cannot be trusted, so nothing is allowed."""

    code = "grants_invalid"


class GrantStore:
    """The grants of one workspace, in its folder of the state home."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, NAME)

    def load(self) -> list[SavedGrant]:
        """All grants, revoked ones too. Raises `GrantsInvalid`."""
        return self._read().grants

    def issue(
        self, address: str, capability: str, lifetime: Lifetime, *, provenance: Provenance, invocation_id: str = ""
    ) -> Grant:
        """A new grant, or the live one that says the same. One for a single call may be claimed at once, by `invocation_id`."""

        def change(file: _File) -> tuple[_File, Grant]:
            for saved in file.grants:
                is_same = (saved.grant.address, saved.grant.capability, saved.grant.lifetime) == (
                    address,
                    capability,
                    lifetime,
                )
                claimed_by = saved.claim.invocation_id if saved.claim is not None else ""
                if is_same and not saved.revoked and saved.grant.expires_at is None and claimed_by == invocation_id:
                    return file, saved.grant
            number = file.sequence + 1
            grant = Grant(f"grant_{number}", address, capability, lifetime, provenance, now_ms(), 1)
            claim = Claim(invocation_id, now_ms()) if invocation_id else None
            return _File(FORMAT, number, [*file.grants, SavedGrant(grant, False, claim)]), grant

        return self._change(change)

    def claim(self, grant: Grant, invocation_id: str) -> bool:
        """Use the grant for this call; True again for the same call. False when it is gone, or another call was faster."""
        if not isinstance(grant.lifetime, Once):
            return True

        def change(file: _File) -> tuple[_File, bool]:
            saved = next((each for each in file.grants if each.grant.id == grant.id), None)
            if saved is None or saved.revoked:
                return file, False
            if saved.claim is not None:
                return file, saved.claim.invocation_id == invocation_id
            claimed = msgspec.structs.replace(saved, claim=Claim(invocation_id, now_ms()))
            return _with(file, claimed), True

        return self._change(change)

    def revoke(self, grant_id: str) -> Grant:
        """Take a right back. Raises `NotFound`."""

        def change(file: _File) -> tuple[_File, Grant]:
            saved = next((each for each in file.grants if each.grant.id == grant_id), None)
            if saved is None:
                raise NotFound(f"There is no grant {grant_id!r}.", hint="`perdure permissions list` shows them.")
            grant = msgspec.structs.replace(saved.grant, revision=saved.grant.revision + 1)
            changed = msgspec.structs.replace(saved, grant=grant, revoked=True)
            return (file if saved.revoked else _with(file, changed)), grant

        return self._change(change)

    def _change(self, change: Callable[[_File], tuple[_File, R]]) -> R:
        with self._locked():
            before = self._read()
            after, result = change(before)
            if after is not before:
                replace(self.path, msgspec.json.format(msgspec.json.encode(after), indent=2) + b"\n", durable=True)
            return result

    @contextmanager
    def _locked(self) -> Iterator[None]:
        private_folder(os.path.dirname(self.path))
        lock = PidLock(f"{self.path}.lock")
        lock.wait(_LOCK_LIMIT_S, take_over=False, message=lambda _holder: _locked_text(lock.path))
        try:
            yield
        finally:
            lock.release()

    def _read(self) -> _File:
        content = read_owned(self.path, _invalid)
        if content is None:
            return _File(FORMAT, 0, [])
        try:
            file = msgspec.convert(strict_json(content), _File)
        except (ValueError, RecursionError) as error:
            raise _invalid() from error
        if not _is_consistent(file):
            raise _invalid()
        return file


def read_owned(path: str, invalid: Callable[[], Refused]) -> bytes | None:
    """The content of a regular file that is no link; None when there is none. Raises what `invalid` makes."""
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise invalid() from error
    try:
        with open(handle, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise invalid() from error
    if len(content) > _MAX_BYTES:
        raise invalid()
    return content


def strict_json(content: bytes) -> Any:
    """The value of a JSON text in which no object names a key twice. Raises ValueError."""
    import json

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key stands twice")
        return found

    return json.loads(content.decode(), object_pairs_hook=once)


def _is_consistent(file: _File) -> bool:
    """What the types do not say: ids are numbered and unique, times and counts are no nonsense, claims only of single grants."""
    numbers = []
    for saved in file.grants:
        grant = saved.grant
        number = grant.id.removeprefix("grant_")
        if grant.id == number or not (number.isascii() and number.isdigit()) or number.startswith("0"):
            return False
        if not grant.address or not grant.capability or grant.issued_at < 0 or grant.revision < 1:
            return False
        if saved.claim is not None and (not isinstance(grant.lifetime, Once) or not saved.claim.invocation_id):
            return False
        numbers.append(int(number))
    return len(set(numbers)) == len(numbers) and max(numbers, default=0) <= file.sequence


def _with(file: _File, changed: SavedGrant) -> _File:
    grants = [changed if each.grant.id == changed.grant.id else each for each in file.grants]
    return _File(FORMAT, file.sequence, grants)


def _invalid() -> GrantsInvalid:
    return GrantsInvalid("Saved agent grants are invalid; refusing authorization.")


def _locked_text(path: str) -> str:
    return (
        f"Agent grants are locked at {path}; refusing authorization. If no Perdure process is using this store, remove the "
        "abandoned lock and retry."
    )
