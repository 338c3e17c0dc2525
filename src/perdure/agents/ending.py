"""How a program ended, as the failure of its turn."""

from __future__ import annotations

from perdure.agents.backend import AgentRequest, BackendError, ProgramReport
from perdure.sandbox.command import CommandResult

# The exit code by which programs say that the same call may succeed later (EX_TEMPFAIL).
TRY_AGAIN = 75
_LONGEST = 1_000


def failure_of(
    program: str, request: AgentRequest, result: CommandResult, *, said: str, partial: str, report: ProgramReport
) -> BackendError | None:
    """Why a program that ended so gave no answer; None when its end was a good one. `said` is what it told of it."""
    if result.timed_out:
        message = f"{program} ran longer than {(request.timeout_ms or 0) / 1000:g} s."
        return BackendError(message, failure_class="transient_infra", retryable=True, partial=partial, report=report)
    if result.exit_code == 0:
        return None
    again = result.exit_code == TRY_AGAIN
    return BackendError(
        f"{program} {ending(result.exit_code)}: {said.strip()[-_LONGEST:] or 'it said nothing.'}",
        failure_class="transient_infra" if again else None,
        retryable=again,
        partial=partial,
        report=report,
    )


def ending(exit_code: int | None) -> str:
    """An end in words."""
    if exit_code is not None and exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"ended with exit code {exit_code}"
