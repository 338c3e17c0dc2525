"""Keys of providers: from the environment, else from a file in the state that only its owner can read. They are never logged."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from perdure.base.errors import Refused
from perdure.disk.home import StateHome

VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai-compatible": ("PERDURE_API_KEY", "OPENAI_API_KEY"),
}
_LONGEST = 16 * 1024
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class KeyMissing(Refused):
    """A provider wants a key, and there is none."""

    code = "key_missing"


class UnsafeKeyFile(Refused):
    """A key's file can be read by others, or lies where it may be published; it is not used."""

    code = "unsafe_key_file"


def find_key(backend: str, environ: Mapping[str, str], home: StateHome | None) -> str:
    """The key of a backend, "" when there is none. A variable beats the file. Raises `UnsafeKeyFile`."""
    for name in VARIABLES.get(backend, ()):
        value = environ.get(name, "").strip()
        if value:
            return value
    return _read_file(backend, home) if home is not None and backend in VARIABLES else ""


def need_key(backend: str, environ: Mapping[str, str], home: StateHome | None) -> str:
    """The same for a provider that answers nobody without one. Raises `KeyMissing`, naming both ways to give it."""
    key = find_key(backend, environ, home)
    if not key:
        raise KeyMissing(
            f"The backend {backend} needs a key, and there is none.", hint=f"Give it: {ways(backend, home)}."
        )
    return key


def known_keys(environ: Mapping[str, str], home: StateHome | None) -> list[str]:
    """All keys that this process could use, so that they can be masked wherever they would be written. Raises nothing."""
    found = [environ.get(name, "").strip() for names in VARIABLES.values() for name in names]
    for backend in VARIABLES if home is not None else ():
        assert home is not None
        try:
            # Whoever may not be asked with it must still not read it in a log.
            with open(f"{home.auth}/{backend}", encoding="utf-8", errors="replace") as file:
                found.append(file.read(_LONGEST).strip())
        except OSError:
            continue
    return list(dict.fromkeys(key for key in found if key))


def ways(backend: str, home: StateHome | None = None) -> str:
    """How a key is given, for people."""
    folder = home.auth if home is not None else "auth of the state home"
    return f"set {' or '.join(VARIABLES.get(backend, ('PERDURE_API_KEY',)))}, or write it to {folder}/{backend} (mode 0600)"


def _read_file(backend: str, home: StateHome) -> str:
    path = f"{home.auth}/{backend}"
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UnsafeKeyFile(
            f"The key in {path} cannot be used: {error.strerror}.", hint="It must be a plain file of yours."
        ) from error
    with os.fdopen(handle, "rb") as file:
        _check(path, os.fstat(handle), home)
        content = file.read(_LONGEST)
    try:
        key = content.decode("ascii").strip()
    except UnicodeDecodeError:
        key = "\n"
    if not key.isprintable() or " " in key:
        raise UnsafeKeyFile(f"{path} holds no key.", hint="It must hold the key and nothing else.")
    return key


def _check(path: str, found: os.stat_result, home: StateHome) -> None:
    """Raises `UnsafeKeyFile` unless the file is its owner's alone, in a folder that is too, outside every repository."""
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeKeyFile(f"{path} is no plain file.", hint="Write the key into a file of that name.")
    if os.name == "posix":
        folder = os.lstat(home.auth)
        if not stat.S_ISDIR(folder.st_mode):
            raise UnsafeKeyFile(f"{home.auth} is no folder, or a symbolic link.", hint="Make it a folder of mode 0700.")
        for each, at, mode in ((home.auth, folder, "700"), (path, found, "600")):
            if at.st_uid not in (os.geteuid(), 0):
                raise UnsafeKeyFile(f"{each} belongs to uid {at.st_uid}.", hint="It must be yours.")
            if stat.S_IMODE(at.st_mode) & 0o077:
                wide = f"{each} has mode {stat.S_IMODE(at.st_mode):04o}, so others can read the key."
                raise UnsafeKeyFile(wide, hint=f"`chmod {mode} {each}`, and get a new key if others were there.")
    repository = _repository_around(home.root)
    if repository:
        raise UnsafeKeyFile(
            f"{path} lies in the repository {repository}, where a commit would publish it.",
            hint="Use a state home outside, or the environment.",
        )


def _repository_around(path: str) -> str:
    """The root of the Git repository around a path, links followed; "" when there is none."""
    folder = os.path.realpath(path)
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder
