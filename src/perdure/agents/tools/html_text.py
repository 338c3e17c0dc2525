"""HTML as text: blocks on lines of their own, links with their targets, no scripts or styles."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_BLOCKS = frozenset(
    {
        "p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "ul", "ol", "li", "table", "tr", "br",
        "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "form", "dl", "dt", "dd", "hr", "figure",
    }
)  # fmt: skip


def text_of(html: str) -> str:
    """The text of a page, however broken its HTML is."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = [re.sub(r"[ \t\xa0]+", " ", line).strip() for line in "".join(reader.pieces).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._silent: list[str] = []
        self._targets: list[str] = []
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag == "body":
            self._silent.clear()
        elif tag == "a":
            self._targets.append(dict(attrs).get("href") or "")
        self._pre += tag == "pre"
        if tag in _BLOCKS:
            self.pieces.append("\n")
        if tag == "li":
            self.pieces.append("- ")
        elif tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.pieces.append("\n" + "#" * int(tag[1]) + " ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                pass
        elif tag == "a" and self._targets:
            target = self._targets.pop()
            if target.startswith(("http://", "https://", "/")):
                self.pieces.append(f" ({target})")
        self._pre = max(0, self._pre - (tag == "pre"))
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.pieces.append(data if self._pre else re.sub(r"\s+", " ", data))
