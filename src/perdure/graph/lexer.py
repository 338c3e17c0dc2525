"""Tokens of a graph file, with their places.

The language is DOT as workflow files use it: bare words may hold `-`, `.` and `$`, numbers may carry a unit (`900s`), strings may
go over lines. Comments are `//`, `/* */` and `#` up to the end of the line; right after `=` a `#` begins a value (`color=#ff0000`).

`key = value` is one token, a pair, wherever it stands: most of a file is pairs, and so it is read several times faster.
"""

import re
from typing import Literal, NamedTuple

from perdure.graph.diagnostics import Diagnostic, error
from perdure.graph.tree import Value, word_value

Kind = Literal["word", "string", "pair", "->", "--", "{", "}", "[", "]", ";", ",", "=", ":", "+", "end"]

_WORD = r"-?[\w.$](?:[\w.%$]|-(?![->]))*|\#\w+"
_TEXT = r'[^"\\]*(?:\\.[^"\\]*)*'
_TOKEN = re.compile(
    rf"""[\s\ufeff]*(?:
        (?P<pair>([A-Za-z_][\w.]*)\s*=\s*(?:"({_TEXT})"|({_WORD}))[ \t]*[,;]?)
      | (?P<mark>->|--|[{{}}\[\];,=:+])
      | (?P<word>-?[\w.$](?:[\w.%$]|-(?![->]))*)
      | (?P<string>"({_TEXT})")
      | (?P<comment>//[^\n]*|/\*.*?\*/|\#[^\n]*)
      | (?P<html><(?:[^<>;\]]|<[^<>]*>)*>(?:[^<>;\],"]*<[^<>]*>)*|<)
      | (?P<openstring>".*)
      | (?P<opencomment>/\*.*)
      | (?P<end>\Z)
      | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "\n": ""}
_ESCAPE = re.compile(r"\\(\r\n|.)", re.DOTALL)
_COMPLAINTS = {
    "openstring": "this string has no end.",
    "opencomment": "this comment has no end.",
    "html": "HTML-like strings are not supported; use a quoted string.",
}


class Token(NamedTuple):
    """A token: its kind, its text (of a string: the value; of a pair: the key), where it begins, and a pair's value."""

    kind: Kind
    text: str
    offset: int
    value: Value = ""


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
    """All tokens, the last of kind `end`; what is no token goes to `found`."""
    tokens: list[Token] = []
    add = tokens.append
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "pair":
            quoted = match[3]
            add(Token("pair", match[2], match.start(1), word_value(match[4]) if quoted is None else unescape(quoted)))
        elif kind in ("word", "mark"):
            text = match[kind]
            add(Token("word" if kind == "word" else text, text, match.start(kind)))  # type: ignore[arg-type]
        elif kind == "string":
            add(Token("string", unescape(match["string"][1:-1]), match.start("string")))
        elif kind not in ("comment", "end"):
            _complain(match, str(kind), places, found)
            if kind in ("html", "openstring"):
                # A value all the same, so that one mistake gives one complaint.
                add(Token("string", match[kind], match.start(kind)))
    add(Token("end", "", len(source)))
    return tokens


def _complain(match: re.Match[str], kind: str, places: Places, found: list[Diagnostic]) -> None:
    line, column = places.line_column(match.start(kind))
    message = _COMPLAINTS.get(kind) or f"{match[kind]!r} has no meaning here."
    found.append(error("syntax", message, line=line, column=column))
