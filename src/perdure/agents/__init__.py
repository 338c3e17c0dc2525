"""Agents: the backends that answer a prompt."""
