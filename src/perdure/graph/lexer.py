"""Tokens of a graph file, with their places.

The language is DOT as workflow files use it: bare words may hold `-` and `.`, numbers may carry a unit (`900s`), strings may go
over lines. Comments are `//`, `/* */`, and whatever follows a `#` on its line.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from perdure.graph.diagnostics import Diagnostic, error

Kind = Literal["word", "string", "arrow", "undirected", "punctuation", "end"]

_TOKEN = re.compile(
    r"""(?P<space>[\s\ufeff]+)
      | (?P<comment>//[^\n]*|/\*.*?\*/|\#[^\n]*)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<arrow>->)
      | (?P<word>-?[\w.](?:[\w.%+]|-(?![->]))*)
      | (?P<undirected>--)
      | (?P<punctuation>[{}\[\];,=:])
      | (?P<openstring>"(?:[^"\\]|\\.)*\\?\Z)
      | (?P<opencomment>/\*)
      | (?P<html><)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "\n": ""}
_ESCAPE = re.compile(r"\\(\r\n|.)", re.DOTALL)


class Token(NamedTuple):
    """A token: its kind, its text (of a string: the value), and where it begins."""

    kind: Kind
    text: str
    offset: int


class Places:
    """Lines and columns of offsets in a text."""

    def __init__(self, source: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", source))]

    def line_column(self, offset: int) -> tuple[int, int]:
        """Both from 1."""
        from bisect import bisect_right

        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def unescape(text: str) -> str:
    """The value of a string's inside: known escapes taken, others left as written."""
    if "\\" not in text:
        return text

    def taken(found: re.Match[str]) -> str:
        sign = found[1]
        return _ESCAPES.get("\n" if sign == "\r\n" else sign, found[0])

    return _ESCAPE.sub(taken, text)


def tokenize(source: str, places: Places, found: list[Diagnostic]) -> list[Token]:
    """All tokens, the last of kind `end`; what is no token goes to `found` and is left out."""
    return [*_tokens(source, places, found), Token("end", "", len(source))]


def _tokens(source: str, places: Places, found: list[Diagnostic]) -> Iterator[Token]:
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind in ("space", "comment"):
            continue
        text, offset = match[0], match.start()
        if kind == "string":
            yield Token("string", unescape(text[1:-1]), offset)
        elif kind in ("word", "arrow", "undirected", "punctuation"):
            yield Token(kind, text, offset)  # type: ignore[arg-type]
        else:
            line, column = places.line_column(offset)
            found.append(error("syntax", _complaint(str(kind), text), line=line, column=column))
            if kind in ("openstring", "opencomment"):
                return


def _complaint(kind: str, text: str) -> str:
    return {
        "openstring": "this string has no end.",
        "opencomment": "this comment has no end.",
        "html": "HTML-like strings are not supported; use a quoted string.",
    }.get(kind, f"{text!r} has no meaning here.")
