"""Where a model's turn happens: one adapter a file, behind the one protocol of `protocol.py`.

An adapter speaks one wire format and nothing else: no loop, no tools, no retries, no files. Those are the agent's."""

# The names of the adapters; `registry.py` makes them.
MODELS = ("openai", "anthropic", "openai-compatible", "local")
