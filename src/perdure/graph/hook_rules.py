"""What a hook is, when it is called, and what its answer means: pure decisions, no process and no network."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.graph.options import Hook

# The events by our words; `stage_…` of other tools' files means the same.
EVENTS = frozenset(
    {
        "run_start", "run_complete", "run_failed", "step_start", "step_complete", "step_failed", "step_retrying",
        "edge_selected", "parallel_start", "parallel_complete", "checkpoint_saved", "sandbox_ready", "sandbox_cleanup",
        "pre_tool_use", "post_tool_use", "post_tool_use_failure",
    }
)  # fmt: skip
BLOCKING = frozenset({"run_start", "step_start", "edge_selected", "sandbox_ready", "pre_tool_use"})
_MAX_REASON = 500

Verdict = Literal["proceed", "skip", "block", "override"]


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hook decided. `failed` says that it did not do its work, whatever that means for the event."""

    decision: Verdict = "proceed"
    reason: str = ""
    edge_to: str = ""
    failed: bool = False


class Call(msgspec.Struct, frozen=True):
    """An event for which hooks are called: where, for an edge where it leads, for a tool which. `about` is told besides."""

    event: str
    node_id: str = ""
    handler: str = ""
    target: str | None = None
    tool: str = ""
    about: dict[str, Any] = {}


def parse_hook(value: Any, number: int) -> Hook:
    """A table of `[[hooks]]`, the first has number 1. Raises `ValueError` that says what is wrong with which."""
    hook = msgspec.convert(value, Hook)
    problem = _problem(hook)
    if problem is not None:
        raise ValueError(f"hook {hook.name or number}: {problem}")
    return hook


def _problem(hook: Hook) -> str | None:
    event = canonical(hook.event)
    if event not in EVENTS:
        return f"there is no event {hook.event!r}; known: {', '.join(sorted(EVENTS))}"
    if hook.type in ("prompt", "agent"):
        return f"hooks of type {hook.type!r} need a model and are not there yet; use 'command' or 'http'"
    if hook.type == "command" and not hook.command.strip():
        return "it has no command"
    if hook.type == "http" and not hook.url.startswith(("http://", "https://")):
        return f"its url {hook.url!r} does not begin with http:// or https://"
    if hook.timeout_ms <= 0:
        return f"its timeout_ms {hook.timeout_ms} is not above 0"
    return _bad_matcher(hook.matcher)


def _bad_matcher(matcher: str) -> str | None:
    if not matcher:
        return None
    import re

    try:
        re.compile(matcher)
    except re.error as error:
        return f"its matcher {matcher!r} is no regular expression: {error}"
    return None


def canonical(event: str) -> str:
    """An event's name in our words."""
    return f"step_{event[6:]}" if event.startswith("stage_") else event


def blocks(hook: Hook) -> bool:
    """Whether what the hook decides counts; else it is only told."""
    return hook.blocking if hook.blocking is not None else canonical(hook.event) in BLOCKING


def wants(hook: Hook, call: Call) -> bool:
    """Whether the hook is called: its event, and a node whose id or handler, or a tool whose name, its matcher finds."""
    if canonical(hook.event) != call.event:
        return False
    if not hook.matcher:
        return True
    import re

    return any(re.search(hook.matcher, each) for each in (call.node_id, call.handler, call.tool))


def decision_of(hook: Hook, exit_code: int | None, stdout: str, stderr: str) -> Decision:
    """What a program decided: by its answer, a JSON object with `decision`; else by its exit code: 2 blocks, and so does any but 0
    of a hook whose decision counts. An answer that names no known decision is a failure, so it blocks where that counts."""
    found = _object_of(stdout)
    if found is not None and "decision" in found:
        try:
            return msgspec.convert({**found, "failed": False}, Decision)
        except msgspec.ValidationError as error:
            return _refusal(hook, f"its answer cannot be understood: {error}")
    if exit_code == 0:
        return Decision()
    said = (stderr.strip() or stdout.strip())[-_MAX_REASON:]
    reason = said or ("it took too long" if exit_code is None else f"exit code {exit_code}")
    if exit_code == 2:
        return Decision("block", reason)
    return _refusal(hook, reason)


def failure_of(hook: Hook, reason: str) -> Decision:
    """What it means that a hook could not be called, or took too long: over HTTP the event goes on, else one that counts blocks."""
    if hook.type == "http":
        return Decision("proceed", reason, failed=True)
    return _refusal(hook, reason)


def _refusal(hook: Hook, reason: str) -> Decision:
    return Decision("block" if blocks(hook) else "proceed", reason, failed=True)


def _object_of(text: str) -> dict[str, Any] | None:
    if not text.strip().startswith("{"):
        return None
    try:
        value = msgspec.json.decode(text.strip().encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def header_values(hook: Hook, environ: dict[str, str]) -> dict[str, str]:
    """The headers, with `${env.NAME}` filled in for the names that the hook may read; any other becomes empty."""
    values = {}
    for key, value in hook.headers.items():
        parts = value.split("${env.")
        filled = parts[0]
        for part in parts[1:]:
            name, closed, rest = part.partition("}")
            if not closed:
                filled += "${env." + part
                continue
            filled += (environ.get(name, "") if name in hook.allowed_env_vars else "") + rest
        values[key] = filled
    return values
