"""`agent-approvals.json`: calls that were refused while nobody was there, offered as permissions for future runs.

It holds references only: which agent, in which session, wanted which tool. Never what the tool was to do. Approving gives the agent a
grant for later runs; what was refused is not done again.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from perdure.agents.tools.grants import Grant, GrantStore, Persistent, read_owned, strict_json
from perdure.base.errors import NotFound, Refused
from perdure.disk.atomic import private_folder, replace
from perdure.disk.lock import PidLock

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "agent-approvals.json"
_LOCK_LIMIT_S = 5.0


class FutureRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A refused request. `source` is the capability that was wanted, `approval_id` the name by which it is decided;
    `agent_generation` tells agents apart that had the same name."""

    agent_id: str
    approval_id: str
    session_id: str
    source: str
    agent_generation: str | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    requests: list[FutureRequest]
    sessions: list[str]


class ApprovalsInvalid(Refused):
    """The file of refused requests cannot be read; it is left as it is."""

    code = "approvals_invalid"


class ApprovalStore:
    """The refused requests of one workspace."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, NAME)

    def load(self) -> list[FutureRequest]:
        """What waits for a person, oldest first. Raises `ApprovalsInvalid`."""
        return self._read().requests

    def record(self, agent_id: str, capability: str, session_id: str) -> FutureRequest:
        """Keep a refused request, once for each agent and capability."""
        request = FutureRequest(agent_id, approval_id(agent_id, capability), session_id, capability)
        with self._locked():
            file = self._read()
            known = next((each for each in file.requests if each.approval_id == request.approval_id), None)
            if known is not None:
                return known
            self._save([*file.requests, request])
        return request

    def remove(self, wanted: str) -> FutureRequest:
        """Take a request out, by its id or an unmistakable beginning of it. Raises `NotFound`."""
        with self._locked():
            requests = self._read().requests
            found = find_request(requests, wanted)
            self._save([each for each in requests if each is not found])
        return found

    def _save(self, requests: list[FutureRequest]) -> None:
        file = _File(1, requests, list(dict.fromkeys(each.session_id for each in requests)))
        replace(self.path, msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n", durable=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        private_folder(os.path.dirname(self.path))
        lock = PidLock(f"{self.path}.lock")
        lock.wait(_LOCK_LIMIT_S)
        try:
            yield
        finally:
            lock.release()

    def _read(self) -> _File:
        content = read_owned(self.path, self._invalid)
        if content is None:
            return _File(1, [], [])
        try:
            file = msgspec.convert(strict_json(content), _File)
        except (ValueError, RecursionError) as error:
            raise self._invalid() from error
        if file.version != 1 or len({each.approval_id for each in file.requests}) != len(file.requests):
            raise self._invalid()
        return file

    def _invalid(self) -> ApprovalsInvalid:
        return ApprovalsInvalid(
            f"{self.path} cannot be read as refused requests; it was left as it is.", hint="Mend it, or move it away."
        )


def approval_id(agent_id: str, capability: str) -> str:
    """The id of the request of an agent for a capability: always the same."""
    return f"approval_{sha256(msgspec.json.encode([agent_id, capability])).hexdigest()[:12]}"


def find_request(requests: list[FutureRequest], wanted: str) -> FutureRequest:
    """The request that is meant. Raises `NotFound`, or `Refused` when several are."""
    full = wanted if wanted.startswith("approval_") else f"approval_{wanted}"
    found = [each for each in requests if wanted and each.approval_id.startswith(full)]
    if len(found) > 1:
        raise Refused(f"{wanted} begins the ids of {len(found)} requests.", hint="Write more of the id.")
    if not found:
        raise NotFound(f"There is no request {wanted!r}.", hint="`perdure permissions list` shows them.")
    return found[0]


def approve(folder: str, wanted: str) -> Grant:
    """Allow a refused request for future runs: a grant until it is revoked. Raises `NotFound`, `GrantsInvalid`."""
    approvals = ApprovalStore(folder)
    request = find_request(approvals.load(), wanted)
    # The grant first: a kill between the two leaves a request that can be approved again, never a yes that was lost.
    grant = GrantStore(folder).issue(request.agent_id, request.source, Persistent(), provenance="human")
    approvals.remove(request.approval_id)
    return grant
