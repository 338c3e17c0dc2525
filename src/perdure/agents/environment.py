"""The variables that tell a program of the turn that it is asked for."""

from __future__ import annotations

from perdure.agents.backend import AgentRequest

_NAMES = (
    "PERDURE_RUN_ID", "PERDURE_NODE_ID", "PERDURE_VISIT", "PERDURE_ATTEMPT", "PERDURE_MODEL", "PERDURE_PROVIDER",
    "PERDURE_REASONING_EFFORT", "PERDURE_MAX_TOKENS", "PERDURE_THREAD_ID", "PERDURE_FIDELITY", "PERDURE_PROMPT_ONLY",
    "PERDURE_PROMPT_FILE",
)  # fmt: skip


def turn_environment(request: AgentRequest, prompt_file: str) -> dict[str, str]:
    """The variables of this turn. Those of a run around this one are not the agent's, and what nobody asked for is not set."""
    values = (
        request.run_id, request.node_id, str(request.visit), str(request.attempt), request.model, request.provider,
        request.reasoning_effort, "" if request.max_tokens is None else str(request.max_tokens), request.thread_id,
        request.fidelity, "1" if request.is_prompt_only else "", prompt_file,
    )  # fmt: skip
    env = {name: value for name, value in request.env.items() if name not in _NAMES}
    return env | {name: value for name, value in zip(_NAMES, values, strict=True) if value}
