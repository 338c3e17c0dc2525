"""Where the real programs are, and how they are pointed at a model on loopback, with a home of their own and no key that anybody pays for."""

import os
import shutil
from pathlib import Path

import pytest

from .fakes import FakeModel

# Read before a test changes the home. `.ci/run` installs them there.
_FOLDER = Path(os.environ.get("AGENT_PROGRAMS") or Path.home() / ".cache" / "perdure-agent-programs")
_PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}


def program(name: str) -> str:
    """The path of a program; the test is skipped when it is not installed."""
    found = shutil.which(name, path=f"{_FOLDER / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed: npm install --prefix {_FOLDER} {_PACKAGES[name]}")
    return found


def claude(model: FakeModel, home: Path) -> tuple[str, dict[str, str]]:
    """The command of Claude Code, and the variables that it needs."""
    return program("claude"), {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "key-of-the-tests",
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def codex(model: FakeModel, home: Path) -> tuple[str, dict[str, str]]:
    """The command of Codex, and the variables that it needs."""
    for name in ("codex", "temporary"):
        (home / name).mkdir(exist_ok=True)
    provider = f'{{name="fake",base_url="{model.url}/v1",wire_api="responses",env_key="FAKE_KEY"}}'
    command = f"{program('codex')} -c model=fake-1 -c model_provider=fake -c 'model_providers.fake={provider}'"
    # It keeps the programs of its sandbox in its home, and only when that is not under what it takes for the folder of temporary files.
    folders = {"CODEX_HOME": str(home / "codex"), "TMPDIR": str(home / "temporary")}
    return command, folders | {"FAKE_KEY": "key-of-the-tests"}
