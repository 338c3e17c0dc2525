"""Strict fake providers on loopback: OpenAI Responses, Anthropic Messages and Chat Completions, as scripted as a test wants them.

    from perdure.testing.providers import FakeProvider, Reply, Call

    with FakeProvider([Reply(tool_calls=[Call("read", {"path": "a.txt"})]), Reply(text="Done.")]) as provider:
        ...  # talk to provider.openai_url or provider.anthropic_url
        assert provider.answered_twice() == []

They refuse what the real ones refuse: results without calls and calls without results, reasoning that is missing or was changed,
models that nobody has. `python -m perdure.testing.providers --script FILE` runs one as a program.
"""

from perdure.testing.providers.record import Recorded
from perdure.testing.providers.script import Call, Pick, Reply, load_script
from perdure.testing.providers.server import FakeProvider

__all__ = ["Call", "FakeProvider", "Pick", "Recorded", "Reply", "load_script"]
