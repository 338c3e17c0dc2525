"""A person's secrets: kept in one file of the state home for its owner only, given to runs by name, never shown again.

A run gets one only where its settings say `${secret.NAME}`; the masker of every run knows them all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from perdure.base.errors import EnvironmentFault, NotFound, Refused
from perdure.disk.atomic import private_folder, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.disk.home import StateHome

MIN_LENGTH = 6
_LOCK_LIMIT_S = 5.0


class UnreadableSecrets(EnvironmentFault):
    """The file of secrets is there and cannot be used; nothing is run without what it holds."""

    code = "unreadable_secrets"


def read_secrets(home: StateHome) -> dict[str, str]:
    """All secrets by name. Raises `UnreadableSecrets`."""
    path = _path(home)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        # What the file holds is no part of the message.
        what = error.strerror if isinstance(error, OSError) else "it is no JSON object of texts"
        raise UnreadableSecrets(
            f"{path} cannot be read: {what}.", hint="Set the secrets anew, or mend the file."
        ) from None


def set_secret(home: StateHome, name: str, value: str) -> None:
    """Keep a secret, in the place of an older one of that name. Raises `Refused` for a name or a value that cannot be one."""
    if not (name.isascii() and name.isidentifier() and len(name) <= 200):
        raise Refused(f"{name!r} cannot be a secret's name: letters, digits and '_', not beginning with a digit.")
    if len(value.strip()) < MIN_LENGTH:
        raise Refused(
            f"The value of {name} has fewer than {MIN_LENGTH} characters: it could not be kept out of what is written.",
            hint="Use a longer one.",
        )
    _change(home, lambda secrets: {**secrets, name: value})


def remove_secret(home: StateHome, name: str) -> None:
    """Forget a secret. Raises `NotFound`."""
    if name not in read_secrets(home):
        raise NotFound(f"There is no secret {name}.", hint="`perdure secret list` lists all.")
    _change(home, lambda secrets: {key: value for key, value in secrets.items() if key != name})


def know_secrets(home: StateHome) -> dict[str, str]:
    """Read the secrets for the runs of this process, so that settings can name them; all by name."""
    from perdure.sandbox import environment

    found = read_secrets(home)
    environment.know_secrets(found)
    return found


def _change(home: StateHome, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    from perdure.disk.lock import PidLock

    home.ensure()
    private_folder(home.auth)
    lock = PidLock(f"{_path(home)}.lock")
    lock.wait(_LOCK_LIMIT_S)
    try:
        secrets = change(read_secrets(home))
        replace(_path(home), msgspec.json.encode(dict(sorted(secrets.items()))), durable=True)
    finally:
        lock.release()


def _path(home: StateHome) -> str:
    return os.path.join(home.auth, "secrets.json")
