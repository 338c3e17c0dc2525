"""What an agent is told before its task: where it works, what it may do, what the project says."""

from __future__ import annotations

from perdure.agents.project_docs import ProjectDocs

_MAY = {
    "read-only": "You may read files, and change nothing.",
    "read-write": "You may read and change files in the working folder.",
    "full": "You may read and change files in the working folder, and run commands.",
}


def system_prompt(*, cwd: str, permission: str, docs: ProjectDocs, skills: str, has_tools: bool) -> str:
    """The system message of one agent."""
    if not has_tools:
        return "You answer one task of a workflow. Answer with the result itself, complete and without questions."
    how = (
        "You are an agent that does one task of a workflow, with tools, without a person beside you. Work until the task is done, "
        "check what you did, then answer with a short account of it. A call of a tool that fails says why: read it and go on."
    )
    parts = [
        how,
        f"The working folder is {cwd}. {_MAY.get(permission, '')}".rstrip(),
    ]
    if docs.text:
        parts.append(f"What the project says to agents:\n\n{docs.text}")
    if skills:
        parts.append(skills)
    return "\n\n".join(parts)
