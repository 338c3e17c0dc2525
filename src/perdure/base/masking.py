"""Secrets, replaced before anything is written.

A secret is the value of an environment variable whose name says so, or a key whose shape is well known. It is found as it is,
as JSON or a URL writes it, and inside base64. Not found: a secret that was encrypted, compressed, reversed or cut in pieces
by the program that prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping

MASK = b"[masked]"
_SUFFIXES = (
    "_API_KEY",
    "_APIKEY",
    "_SECRET",
    "_TOKEN",
    "_PASSWORD",
    "_PASSWD",
    "_PASSPHRASE",
    "_CREDENTIAL",
    "_CREDENTIALS",
    "_KEY_ID",
    "_ACCESS_KEY",
    "_PRIVATE_KEY",
    "_SECRET_KEY",
)
_NAMES = frozenset(
    {
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "API_KEY",
        "APIKEY",
        "CREDENTIALS",
        "PGPASSWORD",
        "MYSQL_PWD",
    }
)
_MIN_LENGTH = 6
# A key begins where a word does, or words like `task-…` would be taken for one. A line's end in JSON and a terminal's colour
# also stand before words, and end in a letter.
_BEGIN = rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=[0-9\[]m))"
_SHAPES = (
    # A long piece without a dash, and a digit: what people write with dashes has neither.
    rb"sk-(?=[A-Za-z0-9_-]{0,200}?[A-Za-z0-9]{16})(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{20,250}",
    rb"gh[pousr]_[A-Za-z0-9]{36,255}",
    rb"github_pat_[A-Za-z0-9_]{22,255}",
    rb"AKIA[0-9A-Z]{16}",
    rb"xox[baprs]-[A-Za-z0-9-]{10,200}",
)
_SHAPE_STARTS = (rb"sk-", rb"gh[pousr]_", rb"github_pat_", rb"AKIA", rb"xox[baprs]-")
_LONGEST_SHAPE = 300
_LOOK_BEHIND = 2


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
            for each in {secret, secret.strip()}:
                if len(each) >= _MIN_LENGTH:
                    forms |= _forms(each)
        self._forms = sorted(forms, key=len, reverse=True)
        self._patterns: tuple[re.Pattern[bytes], re.Pattern[bytes]] | None = None
        self.longest = max([len(form) for form in forms] + [_LONGEST_SHAPE])

    def mask(self, text: bytes) -> bytes:
        """The text with every secret replaced. A JSON object or list stays JSON, with its numbers and its plain keys."""
        # Nearly every text holds nothing that looks like a secret: one search says so.
        if self._compiled()[0].search(text) is None:
            return text
        masked = self._masked(text)
        if masked == text or text[:1] not in (b"{", b"["):
            return masked
        # A secret may be a number, or the name of a property: cutting it out of the text would end the document.
        return self._masked_json(text) or masked

    def stream(self) -> MaskedStream:
        """For text that comes in pieces."""
        return MaskedStream(self)

    def find(self, text: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Where secrets stand, by their beginnings; they may overlap."""
        beginning, whole = self._compiled()
        place = beginning.search(text, start)
        while place is not None:
            found = whole.match(text, place.start())
            if found is not None:
                yield found.span()
            place = beginning.search(text, place.start() + 1)

    def _masked(self, text: bytes) -> bytes:
        stream = MaskedStream(self)
        return stream.take(text, len(text))

    def _masked_json(self, text: bytes) -> bytes | None:
        """The document with its texts masked; None when it is no JSON."""
        import msgspec

        try:
            return msgspec.json.encode(self._masked_value(msgspec.json.decode(text)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def _masked_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._masked(value.encode()).decode("utf-8", "replace")
        if isinstance(value, dict):
            return {self._masked_key(key): self._masked_value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._masked_value(each) for each in value]
        if isinstance(value, (int, float)) and self._masked(str(value).encode()) == MASK:
            return MASK.decode()
        return value

    def _masked_key(self, key: str) -> str:
        """A key that is a plain word is a property's name, whatever secret is spelled like it."""
        if key.isascii() and key.islower() and key.replace("_", "").isalpha():
            return key
        return self._masked(key.encode()).decode("utf-8", "replace")

    def _compiled(self) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
        """What may be the beginning of a secret, which is found fast; and what is one."""
        if self._patterns is None:
            import re

            forms = [re.escape(form) for form in self._forms]
            shapes = b"%b(?:%b)" % (_BEGIN, b"|".join(_SHAPES))
            self._patterns = re.compile(b"|".join([*forms, *_SHAPE_STARTS])), re.compile(b"|".join([*forms, shapes]))
        return self._patterns


class MaskedStream:
    """Finds secrets that are split over pieces: holds back as much as the longest secret is long.

    All pieces together come out as the whole text would, masked at once.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        # What is held, after the few bytes before it that tell where a word begins.
        self._held = b""
        self._before = 0
        # How many of the held bytes belong to a secret whose mask is out already.
        self._covered = 0

    def feed(self, piece: bytes) -> bytes:
        """What can be written now."""
        text = self._held + piece
        return self.take(text, len(text) - self._masker.longest)

    def close(self) -> bytes:
        """What was held back."""
        return self.take(self._held, len(self._held))

    def take(self, text: bytes, limit: int) -> bytes:
        """What comes of the text up to the limit; the rest is held. No secret that begins before the limit goes on after the text."""
        limit = max(limit, self._before)
        at = self._before + self._covered
        parts = []
        for start, end in self._masker.find(text, self._before):
            if start >= limit:
                break
            if start >= at:
                parts += [text[at:start], MASK]
            at = max(at, end)
        if at < limit:
            parts.append(text[at:limit])
            at = limit
        self._before = min(limit, _LOOK_BEHIND)
        self._held = text[limit - self._before :]
        self._covered = at - limit
        return b"".join(parts)


def _forms(secret: str) -> set[bytes]:
    """How the secret may stand in a file."""
    import base64
    from urllib.parse import quote, quote_plus

    raw = secret.encode("utf-8", "surrogatepass")
    urls = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    forms = {raw} | {form.encode() for url in urls for form in (url, _lower_escapes(url))}
    for only_ascii in (False,) if secret.isascii() else (False, True):
        # Once as JSON writes it, and once more for JSON that stands inside a text of JSON, as a program's output does.
        once = _json_escapes(secret, only_ascii=only_ascii)
        forms |= {text.encode("utf-8", "surrogatepass") for text in (once, _json_escapes(once, only_ascii=False))}
    for shift in range(3):
        # Base64 works on groups of three bytes: the middle of the secret looks the same at each of three shifts.
        middle = raw[(-shift) % 3 :]
        middle = middle[: len(middle) // 3 * 3]
        stable = base64.b64encode(middle)
        if len(stable) >= 8:
            forms |= {stable, stable.replace(b"+", b"-").replace(b"/", b"_")}
    return forms


def _json_escapes(text: str, *, only_ascii: bool) -> str:
    """The text as it stands between the quotation marks."""
    if text.isascii():
        import msgspec

        return msgspec.json.encode(text)[1:-1].decode()
    import json

    return json.dumps(text, ensure_ascii=only_ascii)[1:-1]


def _lower_escapes(url: str) -> str:
    """The same URL with `%2f` for `%2F`."""
    first, *others = url.split("%")
    return "%".join([first, *(each[:2].lower() + each[2:] for each in others)])
