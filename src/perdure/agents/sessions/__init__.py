"""Agent sessions: one conversation a file, append-only JSON Lines. docs/reference/agent-sessions.md is the format."""
