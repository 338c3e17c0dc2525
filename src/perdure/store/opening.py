"""Opening `state.sqlite`: made, upgraded or refused, under one write lock; nothing is changed in a file that is refused."""

import os
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import dirname, join

import apsw

from perdure.base import failpoint
from perdure.base.errors import EnvironmentFault
from perdure.store.queries import SQL
from perdure.store.records import StateRefused

APPLICATION_ID = 0x50455244  # "PERD"
BUSY_MS = 5_000
_SCHEMA = join(dirname(__file__), "schema")
_OLDEST_SAFE_SQLITE = (3, 51, 3)


def migrations() -> list[str]:
    """The schema files in their order; the n-th brings the schema to version n."""
    return sorted(os.listdir(_SCHEMA))


SCHEMA_VERSION = 3


def open_database(path: str, *, durability: str) -> apsw.Connection:
    """A connection to an up-to-date state, made or upgraded when need be.

    Raises `StateRefused` for a file of another program or of a newer version, `EnvironmentFault` when the machine does not
    allow it.
    """
    check_library()
    with _explained(path):
        old_mask = os.umask(0o077)
        try:
            db = apsw.Connection(path)
        finally:
            os.umask(old_mask)
        try:
            db.set_busy_timeout(BUSY_MS)
            if _version(db, path) != SCHEMA_VERSION:
                _switch_to_wal(db)
                _upgrade(db, path)
            db.execute(f"pragma synchronous = {'full' if durability == 'full' else 'normal'}")
            # The log file is kept: to write over a recycled one costs half of growing a new one.
            db.execute("pragma wal_autocheckpoint = 1000")
            keep = array("i", [1])
            db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, keep.buffer_info()[0])
        except BaseException:
            db.close()
            raise
    return db


def open_read_only(path: str) -> apsw.Connection | None:
    """A connection that can change nothing, or None when there is no state yet. Works on a read-only file system."""
    if not os.path.exists(path):
        return None
    check_library()
    with _explained(path):
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            db.set_busy_timeout(BUSY_MS)
            version = _version(db, path)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            db.close()
            # Without write access SQLite cannot make its shared-memory file; nobody else can write here either.
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            db = apsw.Connection(f"file:{_uri_path(path)}?immutable=1", flags=flags)
            version = _version(db, path)
    if version == 0:
        db.close()
        return None
    return db


def library_version() -> str:
    """The version of SQLite that is used."""
    return apsw.sqlite_lib_version()


def check_library() -> None:
    """Raises `EnvironmentFault` for a SQLite whose write-ahead log can be corrupted by two processes."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < _OLDEST_SAFE_SQLITE and version[:2] != (3, 50):
        raise EnvironmentFault(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a database that two processes write.",
            hint="Install apsw 3.51.3 or newer.",
        )


def _version(db: apsw.Connection, path: str) -> int:
    """The schema version, 0 for a new file. Raises `StateRefused` without a change to the file."""
    try:
        version: int = db.pragma("user_version")
        application: int = db.pragma("application_id")
        tables: int = db.execute("select count(*) from sqlite_schema").get
    except apsw.NotADBError as error:
        raise StateRefused(f"{path} is no SQLite database; it was left as it is.", hint=_move_hint(path)) from error
    if application != APPLICATION_ID and (version or tables):
        raise StateRefused(f"{path} belongs to another program; it was left as it is.", hint=_move_hint(path))
    if version > SCHEMA_VERSION:
        raise StateRefused(
            f"{path} has schema {version}; this Perdure knows up to {SCHEMA_VERSION}. It was left as it is.",
            hint="Install a newer Perdure.",
        )
    return version


def _move_hint(path: str) -> str:
    return (
        f"Move it away, then `perdure rebuild --store` makes {os.path.basename(path)} again from the run directories."
    )


def _switch_to_wal(db: apsw.Connection) -> None:
    """Write-ahead logging. The switch needs the file alone and does not wait by itself, so it is tried again for a while;
    one process that loses every time still works, as the mode is the file's and the next one sets it."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            db.execute("pragma journal_mode = wal").fetchall()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)
        else:
            return


def _upgrade(db: apsw.Connection, path: str) -> None:
    """Bring the schema up to date in one write transaction; the version is read again under its lock."""
    files = migrations()
    db.execute("begin immediate")
    try:
        version = _version(db, path)
        if version < SCHEMA_VERSION:
            failpoint.before_write("store.upgrade")
            for name in files[version:SCHEMA_VERSION]:
                with open(join(_SCHEMA, name), encoding="utf-8") as file:
                    db.execute(file.read())
            db.execute(f"pragma application_id = {APPLICATION_ID}")
            db.execute(f"pragma user_version = {SCHEMA_VERSION}")
            db.execute(SQL["set_meta"], ("state_id", _new_uuid()))
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise
    failpoint.after_write("store.upgrade")


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """SQLite's errors as errors of the environment that name the file."""
    try:
        yield
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.IOError, apsw.FullError) as error:
        raise EnvironmentFault(f"{path} cannot be opened: {error}.", hint=_access(path)) from error
    except apsw.BusyError as error:
        raise EnvironmentFault(f"{path} was busy for {BUSY_MS // 1000} s: {error}.", hint="Try again.") from error
    except apsw.CorruptError as error:
        raise StateRefused(f"{path} is damaged: {error}. It was left as it is.", hint=_move_hint(path)) from error


def _access(path: str) -> str:
    try:
        found = os.stat(path if os.path.exists(path) else dirname(path))
    except OSError as error:
        return f"{error.strerror}: {error.filename}."
    return f"Owner is uid {found.st_uid}, mode {found.st_mode & 0o7777:04o}, this process is uid {os.geteuid()}."


def _new_uuid() -> str:
    from perdure.base import ids

    return ids.uuid_text(ids.new_uuid7())


def _uri_path(path: str) -> str:
    from urllib.parse import quote

    return quote(os.path.abspath(path))
