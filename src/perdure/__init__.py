"""Perdure: durable agent work. The public Python API and nothing else; see docs/reference/python-api.md."""

__version__ = "0.1.0"
