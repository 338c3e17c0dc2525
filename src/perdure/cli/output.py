"""What commands print: JSON for programs, text for people with everything from outside made harmless."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

import click

from perdure.agents.budget import tokens_of

_KEPT = frozenset("\n\t")
_MANY = 200


def escaped(text: str) -> str:
    """The text with signs that move a terminal's cursor, hide or turn text shown as what they are."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if _is_harmless(sign) else _shown(sign) for sign in text)


def _is_harmless(sign: str) -> bool:
    return sign in _KEPT or unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def _shown(sign: str) -> str:
    number = ord(sign)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def one_line(text: str, width: int) -> str:
    """The text on one line, cut to a width."""
    text = escaped(" ".join(text.split()))
    return text if len(text) <= width else f"{text[: width - 1]}…"


def print_json(value: Any) -> None:
    """The value on standard output, which then holds nothing else."""
    import msgspec

    if isinstance(value, list) and len(value) > _MANY:
        # Thousands of rows: one a line is as readable, and costs half. A text cannot hold what is replaced: its quotes are escaped.
        rows = msgspec.json.encode(value).replace(b'},{"', b'},\n{"')
        sys.stdout.flush()
        sys.stdout.buffer.write(rows + b"\n")
        return
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_error(code: str, message: str, hint: str | None) -> None:
    """An error as JSON on standard error."""
    import msgspec

    value = {"error": {"code": code, "message": message, "hint": hint}}
    sys.stderr.write(msgspec.json.encode(value).decode() + "\n")


def say(text: str = "") -> None:
    """A line for people on standard output."""
    click.echo(escaped(text))


def tell(text: str = "") -> None:
    """A line for people on standard error, beside the result."""
    click.echo(escaped(text), err=True)


def indented(text: str) -> str:
    """A text of several lines beside a word at the margin."""
    return text.strip().replace("\n", "\n            ")


def choices_of(question: dict[str, Any]) -> str:
    """What may be given as an answer, in short."""
    keys = [str(option["key"]) for option in question.get("options") or []]
    if not keys and question.get("type") in ("yes_no", "confirmation"):
        keys = ["yes", "no"]
    return " | ".join(keys) or "TEXT"


def duration(ms: float | None) -> str:
    """A time span for people."""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m" if hours else f"{minutes} m {seconds:02d} s"


def usage_text(usage: dict[str, Any]) -> str:
    """What agents used, in words; what nobody reported is not there, and a price that nobody knows is said to be unknown."""
    tokens = tokens_of(usage)
    parts = [f"{tokens:,} tokens"] if tokens else []
    names = (("turns", "turn"), ("tool_calls", "tool call"))
    parts += [f"{usage[key]:,} {name}{'' if usage[key] == 1 else 's'}" for key, name in names if usage.get(key)]
    return ", ".join([*parts, cost_text(usage)])


def cost_text(usage: dict[str, Any]) -> str:
    """What it cost in US dollars: at least, when nobody knows the cost of some of it."""
    if not usage.get("cost") and ("cost" not in usage or usage.get("unpriced")):
        return "cost unknown"
    return f"{'at least ' if usage.get('unpriced') else ''}${usage['cost']:.4f}"


def table(rows: list[list[str]], header: list[str]) -> None:
    """Columns on standard output, each as wide as its widest cell."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
