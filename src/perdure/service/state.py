"""The state that a command works on: the store, the blobs, the settings, and what keeps secrets out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.disk.home import StateHome, find_state_home
from perdure.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.base.masking import Masker
    from perdure.disk.blobs import Blobs
    from perdure.store.records import RunRow

DURABILITIES = ("full", "normal")


class State:
    """An opened state. `store` is None when there is no state yet and it was opened for reading only."""

    def __init__(self, home: StateHome, store: SqliteStore | None, durability: str, environ: Mapping[str, str]) -> None:
        self.home = home
        self._blobs: Blobs | None = None
        self.durability = durability
        self.environ = environ
        self._store = store

    @property
    def blobs(self) -> Blobs:
        """The content that is too large for the log."""
        if self._blobs is None:
            from perdure.disk.blobs import Blobs

            self._blobs = Blobs(self.home.blobs)
        return self._blobs

    @property
    def store(self) -> SqliteStore:
        """The store. Raises `NotFound` when there is no state yet."""
        if self._store is None:
            from perdure.base.errors import NotFound

            raise NotFound("There are no runs yet.", hint="`perdure run FILE` makes one.")
        return self._store

    @property
    def has_runs(self) -> bool:
        """Whether there is a state at all."""
        return self._store is not None

    def masker(self) -> Masker:
        """Keeps secrets out of what is written: of this process's environment, of providers, and those that the person keeps."""
        from perdure.base.masking import Masker, secrets_of
        from perdure.llm.keys import known_keys
        from perdure.service.secrets import know_secrets

        kept = know_secrets(self.home).values()
        return Masker([*secrets_of(self.environ), *known_keys(self.environ, self.home), *kept])

    def run_dir(self, row: RunRow) -> str:
        """Where the run's files are; a state home that was moved takes its runs with it."""
        if os.path.isdir(row.run_dir):
            return row.run_dir
        parent = self.store.find_run(row.parent) if row.parent is not None else None
        if parent is not None:
            moved = os.path.normpath(os.path.join(self.run_dir(parent), os.path.relpath(row.run_dir, parent.run_dir)))
        else:
            moved = os.path.join(self.home.runs, os.path.basename(row.run_dir))
        return moved if os.path.isdir(moved) else row.run_dir

    def remember_place(self, row: RunRow) -> RunRow:
        """The run, its child runs too, with the directory where its files are now remembered: before it is executed."""
        run_dir = self.run_dir(row)
        for child in self.store.child_runs(row.run_id):
            self.remember_place(child)
        if run_dir == row.run_dir:
            return row
        self.store.set_run_dir(row.no, run_dir)
        found = self.store.find_run(row.run_id)
        assert found is not None
        return found

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.close()


def open_state(given: str | None, environ: Mapping[str, str]) -> State:
    """The state for a command that changes something; made when it is not there."""
    home = find_state_home(given, environ)
    home.ensure()
    durability = find_durability(home, environ)
    return State(home, SqliteStore.open(home.database, durability=durability), durability, environ)


def open_state_to_read(given: str | None, environ: Mapping[str, str]) -> State:
    """The state for a command that only looks: nothing is made or changed."""
    home = find_state_home(given, environ)
    return State(home, SqliteStore.open_read_only(home.database), "full", environ)


def find_durability(home: StateHome, environ: Mapping[str, str]) -> str:
    """`PERDURE_DURABILITY`, else `[store] durability` of the person's settings, else `full`. Raises `Refused`."""
    named = environ.get("PERDURE_DURABILITY", "")
    if not named and os.path.exists(home.settings):
        from perdure.graph.config import read_config

        found = read_config(home.settings)
        named = found[0].durability if found else ""
    if named and named not in DURABILITIES:
        from perdure.base.errors import Refused

        raise Refused(f"There is no durability {named!r}.", hint=f"One of {', '.join(DURABILITIES)}.")
    return named or "full"
