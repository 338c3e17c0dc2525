"""The simulated backend: a fixed answer that names the node."""

from perdure.agents.backend import AgentContext, AgentRequest, AgentResult


class SimulatedBackend:
    """Answers without asking anyone."""

    async def run(self, request: AgentRequest, turn: AgentContext) -> AgentResult:
        """Always the same for the same node."""
        return AgentResult(f"[Simulated] {request.node_id}")
