"""Secrets are kept for their owner only, given by name, and never written anywhere else."""

import stat
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]

from .workflows import HELLO

VALUE = "hush-4711-little-bird"


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    """A run that tells its secret in every way that it can."""
    tell = '"echo $DEPLOY_TOKEN; echo $DEPLOY_TOKEN >&2; printf %s $DEPLOY_TOKEN > got"'
    (tmp_path / "hello.fabro").write_text(HELLO % tell)
    path = tmp_path / "workflow.toml"
    path.write_text('graph = "hello.fabro"\n[sandbox.env]\nDEPLOY_TOKEN = "${secret.DEPLOY}"\n')
    return path


def test_a_run_gets_a_secret_by_its_name_and_writes_it_nowhere(
    perdure: Perdure, workflow: Path, tmp_path: Path
) -> None:
    perdure("secret", "set", "DEPLOY", stdin=f"{VALUE}\n").succeeded()
    ran = perdure("--verbose", "run", workflow).succeeded()

    assert (tmp_path / "got").read_text() == VALUE
    holders = [
        path for path in (tmp_path / "state").rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()
    ]
    assert [path.name for path in holders] == ["secrets.json"]
    assert VALUE not in ran.out + ran.err
    assert "[masked]" in next((tmp_path / "state" / "runs").glob("*/nodes/hi/stdout.log")).read_text()


def test_a_secret_that_settings_do_not_name_reaches_no_command(
    perdure: Perdure, workflow: Path, tmp_path: Path
) -> None:
    for name in ("DEPLOY", "OTHER"):
        perdure("secret", "set", name, stdin=VALUE + name).succeeded()
    (tmp_path / "hello.fabro").write_text(HELLO % '"env > got"')
    perdure("run", workflow).succeeded()

    assert f"{VALUE}OTHER" not in (tmp_path / "got").read_text()


def test_secrets_are_for_their_owner_only(perdure: Perdure, tmp_path: Path) -> None:
    perdure("secret", "set", "DEPLOY", stdin=VALUE).succeeded()
    auth = tmp_path / "state" / "auth"

    assert [stat.S_IMODE(path.stat().st_mode) for path in (auth, auth / "secrets.json")] == [0o700, 0o600]
    assert [path.name for path in auth.iterdir()] == ["secrets.json"]


def test_only_names_are_listed_and_a_secret_can_be_forgotten(perdure: Perdure) -> None:
    for name in ("B", "A"):
        perdure("secret", "set", name, stdin=VALUE).succeeded()
    assert perdure("secret", "list").out == "A\nB\n"
    assert perdure("secret", "list", "--json").json == [{"name": "A"}, {"name": "B"}]

    perdure("secret", "rm", "A").succeeded()
    assert perdure("secret", "list").out == "B\n"
    assert perdure("secret", "rm", "A").code != 0


@pytest.mark.parametrize(("name", "value"), [("no-name", VALUE), ("1A", VALUE), ("SHORT", "abc"), ("EMPTY", "")])
def test_what_cannot_be_kept_secret_is_refused(perdure: Perdure, name: str, value: str) -> None:
    assert perdure("secret", "set", name, stdin=value).code == 2
    assert perdure("secret", "list").out == ""


def test_a_secret_that_is_not_there_is_named_before_anything_starts(
    perdure: Perdure, workflow: Path, tmp_path: Path
) -> None:
    ran = perdure("run", workflow)

    assert ran.code == 2
    assert "perdure secret set DEPLOY" in ran.err
    assert not (tmp_path / "got").exists()


def test_a_damaged_file_of_secrets_stops_a_run_and_is_not_shown(
    perdure: Perdure, workflow: Path, tmp_path: Path
) -> None:
    perdure("secret", "set", "DEPLOY", stdin=VALUE).succeeded()
    (tmp_path / "state" / "auth" / "secrets.json").write_text(f'{{"DEPLOY": "{VALUE}')
    ran = perdure("run", workflow)

    assert ran.code == 2
    assert "secrets.json" in ran.err
    assert VALUE not in ran.err
