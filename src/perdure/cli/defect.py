"""What is kept of a defect: its traceback, in a file of the state home. A state home that is not there is not made for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def keep_traceback(given: str | None, environ: Mapping[str, str], error: Exception) -> str | None:
    """Add the traceback, without secrets, to `cli.log` of the state home; its path, or None when it could not be kept."""
    import traceback

    from perdure.base.clock import rfc3339
    from perdure.base.errors import PerdureError
    from perdure.base.ids import now_ms
    from perdure.base.masking import Masker, secrets_of
    from perdure.disk.home import find_state_home

    try:
        path = f"{find_state_home(given, environ).root}/cli.log"
        text = f"{rfc3339(now_ms())} {''.join(traceback.format_exception(error))}"
        content = Masker(secrets_of(environ)).mask(text.encode("utf-8", "backslashreplace"))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (PerdureError, OSError):
        return None
    try:
        os.write(handle, content)
    except OSError:
        return None
    finally:
        os.close(handle)
    return path
