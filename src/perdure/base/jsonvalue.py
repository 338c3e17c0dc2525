"""JSON values: what a step takes and gives, checked when written so that it can always be read.

A value is `None`, a bool, an int, a finite float, a str of valid UTF-8, or a list or a str-keyed dict of
values. Anything else is refused with the path of the key, because a value that comes back different
(a tuple as a list, NaN as null) would make a resumed run differ from the unbroken one.
"""

from math import isfinite
from typing import Any, TypeAlias

import msgspec

from perdure.base.errors import Refused

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

MAX_DEPTH = 200
_MAX_INT_BITS = 4096

encode = msgspec.json.encode
_sorted = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()
_sha256: Any = None


class InvalidValue(Refused):
    """A value that JSON cannot carry faithfully."""

    code = "invalid_value"


def decode(text: bytes | str) -> JSON:
    """The value of a JSON text. Raises `msgspec.DecodeError` when it is none."""
    value: JSON = _decoder.decode(text)
    return value


def encode_checked(value: JSON, path: str = "$") -> bytes:
    """The value as compact JSON. Raises `InvalidValue`, naming the key's path, when it is no JSON value."""
    check(value, path)
    return encode(value)


def digest(value: JSON) -> str:
    """The first 32 hex digits of the SHA-256 of the value with sorted keys: equal values, equal digests."""
    global _sha256
    if _sha256 is None:
        # Imported late: it brings OpenSSL, which a command that only looks does not need.
        from hashlib import sha256

        _sha256 = sha256
    return str(_sha256(_sorted.encode(value)).hexdigest()[:32])


def check(value: object, path: str = "$", depth: int = 0) -> None:  # noqa: C901, PLR0912 - one branch a type, on the hot path
    """Raises `InvalidValue` at the first part of the value that JSON cannot carry."""
    kind = type(value)
    if kind is str:
        if not value.isascii():  # type: ignore[attr-defined]
            _check_text(value, path)  # type: ignore[arg-type]
    elif value is None or kind is bool:
        return
    elif kind is int:
        if value.bit_length() > _MAX_INT_BITS:  # type: ignore[attr-defined]
            raise InvalidValue(f"{path} is an integer of more than {_MAX_INT_BITS} bits.")
    elif kind is float:
        if not isfinite(value):  # type: ignore[arg-type]
            raise InvalidValue(f"{path} is {value!r}; JSON has only finite numbers.")
    elif depth >= MAX_DEPTH:
        raise InvalidValue(f"{path[:200]} is nested deeper than {MAX_DEPTH} levels.")
    elif kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                raise InvalidValue(f"{path} has the key {key!r} of type {type(key).__name__}; keys are text.")
            if not key.isascii():
                _check_text(key, f"{path}.{key!r}")
            check(item, f"{path}.{key}", depth + 1)
    elif kind is list:
        for index, item in enumerate(value):  # type: ignore[arg-type]
            check(item, f"{path}[{index}]", depth + 1)
    else:
        raise InvalidValue(
            f"{path} is of type {kind.__module__}.{kind.__qualname__}, which JSON does not have.",
            hint="Give text, numbers, true, false, null, lists or dicts with text keys.",
        )


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(
            f"{path} holds half of a surrogate pair at position {error.start}; it is no valid text.",
        ) from error
