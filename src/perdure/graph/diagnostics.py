"""Findings about a graph: a rule, how bad it is, what and where, and the way out."""

from typing import Literal

import msgspec

Severity = Literal["error", "warning", "info"]


class Diagnostic(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding. `line` and `column` count from 1."""

    rule: str
    severity: Severity
    message: str
    node_id: str | None = None
    edge: tuple[str, str] | None = None
    fix: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def text(self) -> str:
        """The finding as a line for people, ending in its rule."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        fix = f" {self.fix}" if self.fix else ""
        return f"{place + ': ' if place else ''}{self.severity}: {self.message}{fix} ({self.rule})"


def error(rule: str, message: str, **more: object) -> Diagnostic:
    """A finding that stops a run."""
    return Diagnostic(rule, "error", message, **more)  # type: ignore[arg-type]


def warning(rule: str, message: str, **more: object) -> Diagnostic:
    """A finding that does not."""
    return Diagnostic(rule, "warning", message, **more)  # type: ignore[arg-type]
