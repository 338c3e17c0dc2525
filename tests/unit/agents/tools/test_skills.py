"""Skills: found in the project and the home, told by name, read when wanted."""

from pathlib import Path

import pytest

from perdure.agents.tools.skills import find_skills, skill_tool, skills_text

from .conftest import Desk


def _skill(top: Path, folder: str, text: str) -> None:
    path = top / folder
    path.mkdir(parents=True)
    (path / "SKILL.md").write_bytes(text.encode())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_skills_are_listed_with_what_they_are_for(desk: Desk, home: Path) -> None:
    _skill(
        desk.root, ".perdure/skills/release", "---\nname: release\ndescription: >\n  Make a\n  release.\n---\nSteps\n"
    )
    _skill(desk.root, ".claude/skills/test", '\ufeff---\r\ndescription: "Run tests."\r\n---\r\nSteps\r\n')
    _skill(home, ".perdure/skills/plain", "# Just a text\n\nMore.")
    _skill(home, ".claude/skills/release", "mine")
    skills = find_skills(str(desk.root), str(home))
    assert [(each.name, each.description) for each in skills] == [
        ("plain", "Just a text"),
        ("release", "Make a release."),
        ("test", "Run tests."),
    ]
    assert "- release: Make a release." in skills_text(skills)
    assert skills_text([]) == ""


def test_a_skill_is_read_with_the_files_beside_it(desk: Desk, home: Path) -> None:
    _skill(desk.root, ".perdure/skills/a", "---\ndescription: d\n---\nDo it.")
    (desk.root / ".perdure/skills/a/run.sh").write_text("")
    desk.use([skill_tool(find_skills(str(desk.root), str(home)))])
    text = desk.ok("skill", name="a")
    assert "Do it." in text
    assert "description" not in text
    assert "run.sh" in text
    assert "There are: a" in desk.fault("skill", name="b")


def test_folders_without_a_readable_skill_are_none(desk: Desk, home: Path) -> None:
    (desk.root / ".perdure/skills/empty").mkdir(parents=True)
    _skill(desk.root, ".perdure/skills/huge", "x" * 300_000)
    assert find_skills(str(desk.root), str(home)) == []
