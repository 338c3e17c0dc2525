"""Coding-agent programs as backends: a program is one child process a turn, and keeps its conversation itself.

`turn.py` is what all of them share, `claude_code.py` and `codex.py` read the JSON lines of those two, `acp/` speaks the Agent Client
Protocol with any other. None of them tries again by itself.
"""
