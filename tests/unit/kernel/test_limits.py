"""`limits.json`: what it means, and every way in which it is refused."""

import os
from pathlib import Path

import pytest

from perdure.kernel.capacity.limits import MAX_BYTES, NO_LIMITS, AgentSessions, BadLimits, parse_limits, read_limits

KNOWN = ("codex", "openai")


def parsed(text: str) -> object:
    return parse_limits(text.encode(), "limits.json", KNOWN)


def test_backends_and_sessions_are_read() -> None:
    limits = parse_limits(
        b'{"backends": {"codex": 4, "openai": 100000}, "agentSessions": {"enabled": false, "maxBytes": 10, "targetBytes": 0}}',
        "limits.json",
        KNOWN,
    )

    assert dict(limits.backends) == {"codex": 4, "openai": 100_000}
    assert limits.agent_sessions == AgentSessions(enabled=False, max_bytes=10, target_bytes=0)


def test_an_empty_object_limits_nothing() -> None:
    assert parsed("{}") == NO_LIMITS


@pytest.mark.parametrize(("most", "target"), [(1, 0), (2, 1), (400, 300)])
def test_the_target_follows_the_most_when_it_is_not_given(most: int, target: int) -> None:
    limits = parse_limits(f'{{"agentSessions": {{"maxBytes": {most}}}}}'.encode(), "limits.json", KNOWN)

    assert limits.agent_sessions.target_bytes == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ('{"backends": {"codex": 4,}}', r"not valid JSON: .* \(line 1, column"),
        ("[" * 50_000, "not valid JSON"),
        ('{"backends": {}, "backends": {}}', "the field 'backends' is there twice"),
        ('{"backends": {"codex": 1, "codex": 9}}', "the field 'codex' is there twice"),
        ("[]", "the file is a list, not an object"),
        ("null", "the file is null, not an object"),
        ('{"jobs": 4}', "unknown field 'jobs'. Known: backends, agentSessions"),
        ('{"backends": 4}', "backends is 4, not an object"),
        ('{"backends": {"gpt": 4}}', "unknown variant 'gpt'.* Known: codex, openai"),
        ('{"backends": {"codex": 0}}', "backends.codex is 0; .* between 1 and 100000"),
        ('{"backends": {"codex": 100001}}', "between 1 and 100000"),
        ('{"backends": {"codex": -1}}', "between 1 and 100000"),
        ('{"backends": {"codex": 1.0}}', "is 1.0; .* between 1 and 100000"),
        ('{"backends": {"codex": true}}', "is true; .* between 1 and 100000"),
        ('{"backends": {"codex": "4"}}', "is '4'; .* between 1 and 100000"),
        ('{"backends": {"codex": null}}', "is null; .* between 1 and 100000"),
        ('{"backends": {"codex": NaN}}', "is nan; .* between 1 and 100000"),
        ('{"agentSessions": true}', "agentSessions is true, not an object"),
        ('{"agentSessions": {"size": 1}}', "agentSessions: unknown field 'size'"),
        ('{"agentSessions": {"enabled": 1}}', "agentSessions.enabled is 1; it is true or false"),
        ('{"agentSessions": {"maxBytes": 0}}', "agentSessions.maxBytes is 0; .* 1 or more"),
        ('{"agentSessions": {"maxBytes": "1"}}', "agentSessions.maxBytes is '1'"),
        ('{"agentSessions": {"maxBytes": 9223372036854775808}}', "agentSessions.maxBytes is 9223372036854775808"),
        ('{"agentSessions": {"targetBytes": -1}}', "agentSessions.targetBytes is -1"),
        ('{"agentSessions": {"maxBytes": 5, "targetBytes": 5}}', "targetBytes is 5; it must be lower than maxBytes, 5"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadLimits, match=message):
        parsed(text)


def test_a_file_that_is_no_utf_8_is_refused() -> None:
    with pytest.raises(BadLimits, match="no UTF-8 at byte 1"):
        parse_limits(b"{\xff}", "limits.json", KNOWN)


def test_no_file_limits_nothing(tmp_path: Path) -> None:
    assert read_limits(str(tmp_path / "limits.json"), KNOWN) == NO_LIMITS


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "limits.json"
    (tmp_path / "other.json").write_text("{}")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / ("other.json" if kind == "link" else "nothing"))

    with pytest.raises(BadLimits, match="not a regular file"):
        read_limits(str(path), KNOWN)


def test_a_file_may_have_64_kib_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_bytes(b"{}".ljust(MAX_BYTES))
    assert read_limits(str(path), KNOWN) == NO_LIMITS
    path.write_bytes(b"{}".ljust(MAX_BYTES + 1))
    with pytest.raises(BadLimits, match="larger than 64 KiB"):
        read_limits(str(path), KNOWN)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(BadLimits, match="cannot be read: Permission denied"):
        read_limits(str(path), KNOWN)
