"""Names: ids that become file names, and ids that people give."""

from perdure.base.errors import Refused

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_SMALL = _PLAIN - frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul"} | {f"com{n}" for n in range(1, 10)} | {f"lpt{n}" for n in range(1, 10)}
)
_MAX_BYTES = 200


class BadName(Refused):
    """A name that cannot be a file name here."""

    code = "bad_name"


def file_name(name: str, *, is_case_blind: bool = False) -> str:
    """A file name that is legal on every system and gives the name back; plain names stay as they are.

    Other signs become `%XX` of their UTF-8, and a name that a system reserves gets its first sign so written. A name that
    would be too long ends in `%~` and a digest: such a name is distinct, but only its beginning can be read. For a disk
    that is blind to case, capitals are written as other signs are, so that `Build` and `build` are two files.
    """
    raw = name.encode("utf-8", "surrogatepass")
    plain = _SMALL if is_case_blind else _PLAIN
    text = "".join(chr(byte) if chr(byte) in plain else f"%{byte:02X}" for byte in raw)
    if not text:
        return "%"
    if text[0] in ".-" or text.split(".")[0].lower() in _RESERVED:
        text = f"%{ord(text[0]):02X}{text[1:]}"
    if text.endswith("."):
        text = text[:-1] + "%2E"
    if len(text) > _MAX_BYTES:
        import hashlib

        text = f"{text[: _MAX_BYTES - 40]}%~{hashlib.sha256(raw).hexdigest()[:32]}"
    return text


def from_file_name(text: str) -> str:
    """The name that `file_name` wrote. Raises `BadName` for a shortened one, and for one that it does not write."""
    from urllib.parse import unquote_to_bytes

    if "%~" in text:
        raise BadName(f"{text} was shortened; the whole name stands in the log.")
    if text == "%":
        return ""
    try:
        name = unquote_to_bytes(text).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        name = ""
    if text not in (file_name(name), file_name(name, is_case_blind=True)):
        raise BadName(f"{text[:60]!r} is no file name of an id.")
    return name


def check_plain_name(name: str, what: str) -> None:
    """Raises `BadName` unless the name can be a file name as it is (`what` says what it names)."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise BadName(f'{what} "{name}" must be a plain name: not empty, "." or "..", and without "/", "\\" or NUL')


def check_run_reference(text: str) -> None:
    """Raises `BadName` for what can name no run, before any file is touched."""
    reserved = text in (".", "..") or text.split(".", maxsplit=1)[0].lower() in _RESERVED
    if not text or len(text) > 200 or reserved or text.startswith("-"):
        raise BadName(f"{text[:60]!r} names no run.", hint="`perdure ps -a` lists all runs.")
    if any(ord(sign) < 32 or sign in "/\\\x7f" for sign in text):
        raise BadName(f"{text[:60]!r} names no run: it has a sign that no name has.")
