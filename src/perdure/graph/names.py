"""Older names, rewritten when a file is read, and the status words of all eras."""

from perdure.graph.model import Plain

_KEYS = {
    "tool_command": "script",
    "llm_model": "model",
    "llm_provider": "provider",
    "default_max_retry": "default_max_retries",
    "default_thread_id": "default_thread",
    "default_llm_model": "default_model",
    "default_llm_provider": "default_provider",
    "restart": "loop_restart",
    "stack.child_workflow_file": "stack.child_workflow",
    "node_type": "type",
}
_TYPES = {
    "codergen": "agent",
    "agent_loop": "agent",
    "one_shot": "prompt",
    "tool": "command",
    "wait.human": "human",
    "fan_in": "parallel.fan_in",
    "manager_loop": "stack.manager_loop",
    "timer": "wait",
}
_MODES = {"one_shot": "prompt", "agent_loop": "agent"}

STATUSES = ("succeeded", "partially_succeeded", "failed", "retry", "skipped")
_STATUS = {
    "success": "succeeded",
    "ok": "succeeded",
    "partial_success": "partially_succeeded",
    "partial": "partially_succeeded",
    "fail": "failed",
    "failure": "failed",
    "error": "failed",
    "skip": "skipped",
}


def renamed(key: str, value: Plain, place: str) -> tuple[str, Plain]:
    """The attribute by its present name."""
    if key == "codergen_mode" and isinstance(value, str) and value in _MODES:
        return "type", _MODES[value]
    key = _KEYS.get(key, key)
    if key == "type" and place == "node" and isinstance(value, str):
        value = _TYPES.get(value, value)
    return key, value


def status_word(word: str) -> str:
    """A status by its present word; a word that is none stays as it is."""
    return _STATUS.get(word.lower(), word) if word.lower() in _STATUS else word


def is_status(word: str) -> bool:
    """Whether the word, of whichever era, is a status."""
    return status_word(word) in STATUSES
