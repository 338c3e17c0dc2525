"""What a run was started with besides its graph: recorded with it, so that a resumed run is the same run."""

from typing import Any, Literal

import msgspec

from perdure.agents.budget import NO_BUDGET, Budget

GitMode = Literal["worktree", "in_place", "none"]


class Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """A program or a URL that is called at certain events of a run, and may stop them. `hook_rules.py` says what holds."""

    event: str
    command: str = ""
    name: str = ""
    type: Literal["command", "http", "prompt", "agent"] = "command"
    url: str = ""
    matcher: str = ""
    blocking: bool | None = None
    timeout_ms: int = 60_000
    headers: dict[str, str] = {}
    allowed_env_vars: list[str] = []


class Options(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a graph run was told. `command` is the argv of the `command` backend."""

    goal: str = ""
    inputs: dict[str, Any] = {}
    variables: dict[str, str] = {}
    dry_run: bool = False
    auto_approve: bool = False
    retro: bool = True
    git: GitMode = "none"
    repository: str | None = None
    working_directory: str = "."
    backend: str = ""
    command: list[str] = []
    script: str | None = None
    model: str = ""
    provider: str = ""
    base_url: str = ""
    fallbacks: dict[str, list[str]] = {}
    budget: Budget = NO_BUDGET
    prices: dict[str, Any] = {}
    allow_unknown_cost: bool = False
    agents: dict[str, Any] = {}
    mcp_servers: dict[str, Any] = {}
    env: dict[str, str] = {}
    pass_env: list[str] = []
    setup: list[str] = []
    setup_timeout_ms: int = 300_000
    exclude: list[str] = []
    artifacts: list[str] = []
    hooks: list[Hook] = []
    keep_worktree: bool = False
