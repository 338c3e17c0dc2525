"""What is printed: harmless, on one line where it must be, and JSON in one piece."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.output import cost_text, duration, escaped, one_line, print_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer ✓ 日本", "größer ✓ 日本"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("title\x1b]0;x\x07", "title\\x1b]0;x\\x07"),
        ("over\rwritten", "over\\x0dwritten"),
        ("turned \u202eround", "turned \\u202eround"),
        ("two\nlines\tand", "two\nlines\tand"),
        ("sep\u2028arator", "sep\\u2028arator"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("lone\ud800", "lone\\ud800"),
    ],
)
def test_signs_that_steer_a_terminal_are_shown_as_what_they_are(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text())
def test_nothing_that_is_escaped_can_steer_a_terminal(text: str) -> None:
    assert all(sign.isprintable() or sign in "\n\t" or ord(sign) > 126 for sign in escaped(text))
    assert not set(escaped(text)) & {"\x1b", "\r", "\x07", "\x9b", "\u202e", "\u2066"}


@given(st.text(), st.integers(2, 40))
def test_one_line_is_one_line_and_no_wider(text: str, width: int) -> None:
    shown = one_line(text, width)

    assert len(shown) <= width
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(None, "-"), (0, "0 ms"), (999, "999 ms"), (1_000, "1.0 s"), (61_000, "1 m 01 s"), (3_600_000, "1 h 00 m")],
)
def test_a_time_span_has_one_or_two_units(ms: int | None, shown: str) -> None:
    assert duration(ms) == shown


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        ({"cost": 0.5}, "$0.5000"),
        ({"cost": 0.0}, "$0.0000"),
        ({"cost": 0.5, "unpriced": 1}, "at least $0.5000"),
        ({"cost": 0.0, "unpriced": 1}, "cost unknown"),
        ({"turns": 1}, "cost unknown"),
    ],
)
def test_a_cost_that_nobody_knows_is_never_shown_as_nothing(usage: dict[str, float], shown: str) -> None:
    assert cost_text(usage) == shown


@pytest.mark.parametrize("count", [0, 1, 200, 201, 1_000])
def test_a_list_is_the_same_json_however_long(count: int, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    rows = [{"n": number, "text": "a\nb"} for number in range(count)]
    print_json(rows)
    import sys

    sys.stdout.flush()

    assert json.loads(capfdbinary.readouterr().out) == rows
