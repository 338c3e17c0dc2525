"""A transcript on a terminal or in a pipe: blocks as they become final, and live text as it grows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perdure.cli.output import escaped

if TYPE_CHECKING:
    from perdure.agents.sessions.transcript import Block


class TranscriptPrinter:
    """Prints blocks in their order. Live, a text that goes on is printed as it comes; what replaces it is printed only where
    it differs."""

    def __init__(self, *, is_live: bool = False) -> None:
        self._is_live = is_live
        self._number = 0
        self._printed = ""

    def show(self, block: Block) -> None:
        """One block, new or changed."""
        from perdure.agents.sessions.transcript import label_of, text_of

        is_text = block.kind in ("assistant", "summary")
        if block.kind == "removed" or not (block.is_final or (self._is_live and is_text)):
            return
        text = text_of(block)
        if self._number == block.number and text.startswith(self._printed):
            sys.stdout.write(escaped(text[len(self._printed) :]))
        else:
            self.end()
            label = label_of(block)
            sys.stdout.write(
                escaped(f"\n{label}\n{text}" if label else f"{'' if block.kind == 'session' else chr(10)}{text}")
            )
        self._number, self._printed = block.number, text
        if block.is_final:
            if block.is_interrupted and self._is_live:
                sys.stdout.write(" (interrupted)")
            self.end()

    def end(self) -> None:
        """End the line that is open."""
        if self._number:
            sys.stdout.write("\n")
        self._number, self._printed = 0, ""
