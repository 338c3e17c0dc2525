"""The simulated backend: a fixed answer that names the node."""

from perdure.agents.backend import TurnContext, TurnRequest, TurnResult


class SimulatedBackend:
    """Answers without asking anyone."""

    async def run(self, request: TurnRequest, turn: TurnContext) -> TurnResult:
        """Always the same for the same node."""
        return TurnResult(f"[Simulated] {request.node_id}")
