"""The backend `acp`: any coding agent that speaks the Agent Client Protocol, version 1, over its standard input and output.

`rpc.py` moves JSON-RPC messages, `client.py` answers what the agent asks for, `backend.py` leads the conversation.
"""
