"""Skills: folders with a `SKILL.md` that says how some work is done. A model sees their names and reads one when it needs it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from perdure.agents.tools.output import outcome_of
from perdure.agents.tools.tool import NativeTool, ToolFault, ToolOutcome

if TYPE_CHECKING:
    from perdure.agents.tools.tool import Invocation

FOLDERS = (".perdure/skills", ".claude/skills")
_LIMIT = 256 * 1024
_SHOWN = 100
_DESCRIPTION = 500


class Skill(msgspec.Struct, frozen=True):
    """One skill: its name, what it is for, and its folder."""

    name: str
    description: str
    folder: str

    @property
    def file(self) -> str:
        """Where its text is."""
        return os.path.join(self.folder, "SKILL.md")


class SkillArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `skill` takes."""

    name: Annotated[str, Meta(description="Name of the skill, as the list of skills has it.")]


def find_skills(root: str, home: str) -> list[Skill]:
    """The skills of a project and of its person, by name. Of two with one name the project's is taken, `.perdure` first."""
    found: dict[str, Skill] = {}
    for top in (root, home):
        for folder in FOLDERS:
            base = os.path.join(top, folder)
            for name in sorted(_subfolders(base)):
                skill = _read(os.path.join(base, name))
                if skill is not None:
                    found.setdefault(skill.name, skill)
    return sorted(found.values(), key=lambda each: each.name)


def skills_text(skills: Sequence[Skill]) -> str:
    """What the system prompt says of them, "" when there are none."""
    if not skills:
        return ""
    lines = [f"- {each.name}: {each.description}" for each in skills[:_SHOWN]]
    more = [f"[{len(skills) - _SHOWN} more skills]"] if len(skills) > _SHOWN else []
    return "\n".join(
        ["Skills say how some work is done. Read one with the tool `skill` before that work:", *lines, *more]
    )


def skill_tool(skills: Sequence[Skill]) -> NativeTool:
    """The tool that reads one."""
    by_name = {each.name: each for each in skills}

    async def read_skill(arguments: SkillArguments, call: Invocation) -> ToolOutcome:
        skill = by_name.get(arguments.name)
        if skill is None:
            raise ToolFault(f"There is no skill {arguments.name!r}. There are: {', '.join(by_name) or 'none'}.")
        content = _content(skill.file)
        if content is None:
            raise ToolFault(f"The skill {skill.name} cannot be read any more.")
        others = sorted(name for name in os.listdir(skill.folder) if name != "SKILL.md")
        files = f"\n\nFiles beside it: {', '.join(others[:50])}" if others else ""
        return outcome_of(f"Skill {skill.name}, in {skill.folder}\n\n{_body(content)}{files}", call)

    return NativeTool("skill", "Read a skill: how some work is done.", SkillArguments, "read", True, read_skill)


def _subfolders(base: str) -> list[str]:
    try:
        return [each.name for each in os.scandir(base) if each.is_dir()]
    except OSError:
        return []


def _read(folder: str) -> Skill | None:
    content = _content(os.path.join(folder, "SKILL.md"))
    if content is None:
        return None
    fields = _front_matter(content)
    name = fields.get("name") or os.path.basename(folder)
    description = fields.get("description") or _first_line(_body(content))
    return Skill(" ".join(name.split())[:100], " ".join(description.split())[:_DESCRIPTION], folder)


def _content(path: str) -> str | None:
    """The text; None when it is no file, or one that is too large. What is no UTF-8 is replaced."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(_LIMIT + 1)
    except OSError:
        return None
    if len(content) > _LIMIT:
        return None
    return content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")


def _parts(text: str) -> tuple[str, str]:
    """The front matter between two lines of `---`, and the rest."""
    if not text.startswith("---\n"):
        return "", text
    head, mark, body = text[4:].partition("\n---\n")
    return (head, body) if mark else ("", text)


def _body(text: str) -> str:
    return _parts(text)[1].strip()


def _front_matter(text: str) -> dict[str, str]:
    """`key: value` lines; a value that goes on in indented lines is joined."""
    fields: dict[str, str] = {}
    key = ""
    for line in _parts(text)[0].split("\n"):
        if line[:1] in (" ", "\t") and key:
            fields[key] = f"{fields[key]} {line.strip()}".strip()
            continue
        key, mark, value = line.partition(":")
        key = key.strip()
        if mark and key and not key.startswith("#"):
            value = value.strip()
            fields[key] = "" if value in (">", "|", ">-", "|-") else value.strip("\"'")
        else:
            key = ""
    return fields


def _first_line(text: str) -> str:
    return next((line.lstrip("# ").strip() for line in text.split("\n") if line.strip()), "")
