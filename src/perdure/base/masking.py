"""Secrets, replaced before anything is written.

A secret is the value of an environment variable whose name says so, or a key whose shape is well known. It is found as it is,
as JSON or a URL writes it, and inside base64. Not found: a secret that was encrypted, compressed, reversed or cut in pieces
by the program that prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping

MASK = b"[masked]"
_SUFFIXES = (
    "_API_KEY",
    "_APIKEY",
    "_SECRET",
    "_TOKEN",
    "_PASSWORD",
    "_PASSWD",
    "_CREDENTIAL",
    "_CREDENTIALS",
    "_KEY_ID",
)
_NAMES = frozenset({"SECRET", "TOKEN", "PASSWORD", "API_KEY", "APIKEY", "CREDENTIALS"})
_MIN_LENGTH = 6
_SHAPES = (
    rb"sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,200}",
    rb"gh[pousr]_[A-Za-z0-9]{36,255}",
    rb"github_pat_[A-Za-z0-9_]{22,255}",
    rb"AKIA[0-9A-Z]{16}",
    rb"xox[baprs]-[A-Za-z0-9-]{10,200}",
)
_SHAPE_STARTS = (b"sk-", b"gh", b"AKIA", b"xox")
_LONGEST_SHAPE = 300


def is_secret_name(name: str) -> bool:
    """Whether a variable of that name holds a secret."""
    upper = name.upper()
    return upper in _NAMES or upper.endswith(_SUFFIXES)


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """The values in an environment that must not be written."""
    return [value for name, value in environ.items() if is_secret_name(name) and len(value) >= _MIN_LENGTH]


class Masker:
    """Replaces secrets in bytes."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[bytes] = set()
        for secret in secrets:
            if len(secret) >= _MIN_LENGTH:
                forms |= _forms(secret)
        self._forms = sorted(forms, key=len, reverse=True)
        self._pattern: re.Pattern[bytes] | None = None
        self._quick: Callable[[bytes], object] | None = None
        self.longest = max([len(form) for form in forms] + [_LONGEST_SHAPE])

    def mask(self, text: bytes) -> bytes:
        """The text with every secret replaced."""
        # Nearly every text holds nothing that looks like a secret: one search says so.
        if self._quick is None:
            import re

            starts = [re.escape(form) for form in self._forms] + [re.escape(start) for start in _SHAPE_STARTS]
            self._quick = re.compile(b"|".join(starts)).search
        if self._quick(text) is None:
            return text
        return self._compiled().sub(MASK, text)

    def stream(self) -> MaskedStream:
        """For text that comes in pieces."""
        return MaskedStream(self)

    def _compiled(self) -> re.Pattern[bytes]:
        if self._pattern is None:
            import re

            parts = [re.escape(form) for form in self._forms] + list(_SHAPES)
            self._pattern = re.compile(b"|".join(parts))
        return self._pattern

    def last_safe(self, text: bytes) -> int:
        """How much of the text can be let go: a secret that begins later may end in the next piece."""
        cut = max(0, len(text) - self.longest)
        # Only what crosses the cut matters, so only its surroundings are searched.
        for found in self._compiled().finditer(text, max(0, cut - self.longest)):
            if found.start() >= cut:
                break
            if cut < found.end():
                return found.start() if found.end() == len(text) else found.end()
        return cut


class MaskedStream:
    """Finds secrets that are split over pieces: holds back as much as the longest secret is long."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be written now."""
        text = self._held + piece
        cut = self._masker.last_safe(text)
        self._held = text[cut:]
        return self._masker.mask(text[:cut])

    def close(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return self._masker.mask(held)


def _forms(secret: str) -> set[bytes]:
    """How the secret may stand in a file."""
    import base64
    from urllib.parse import quote

    import msgspec

    raw = secret.encode("utf-8", "surrogatepass")
    forms = {raw, quote(secret, safe="", errors="replace").encode()}
    try:
        forms.add(msgspec.json.encode(secret)[1:-1])
    except UnicodeEncodeError:
        pass
    for shift in range(3):
        # Base64 works on groups of three bytes: the middle of the secret looks the same at each of three shifts.
        middle = raw[(-shift) % 3 :]
        middle = middle[: len(middle) // 3 * 3]
        stable = base64.b64encode(middle)
        if len(stable) >= 8:
            forms |= {stable, stable.replace(b"+", b"-").replace(b"/", b"_")}
    return forms
