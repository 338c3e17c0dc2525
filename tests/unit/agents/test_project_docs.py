"""What a project says to agents: from the root down, each once, never more than fits."""

from pathlib import Path

import pytest

from perdure.agents.project_docs import read_project_docs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    return root


def test_documents_are_given_from_the_root_down(root: Path) -> None:
    (root / "src" / "CLAUDE.md").write_text("inner")
    (root / "AGENTS.md").write_text("outer")
    found = read_project_docs(str(root), str(root / "src" / "deep"))
    assert found.files == ("AGENTS.md", "src/CLAUDE.md")
    assert found.text == "# AGENTS.md\n\nouter\n\n# src/CLAUDE.md\n\ninner"
    assert read_project_docs(str(root), str(root)).files == ("AGENTS.md",)


def test_a_document_that_links_to_another_is_given_once(root: Path) -> None:
    (root / "AGENTS.md").write_text("same")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    assert read_project_docs(str(root), str(root)).files == ("AGENTS.md",)


def test_a_document_outside_of_the_root_is_not_read(root: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("secret")
    (root / "CLAUDE.md").symlink_to(tmp_path / "AGENTS.md")
    assert read_project_docs(str(root), str(root)).text == ""
    assert read_project_docs(str(root), str(tmp_path)).text == ""


def test_too_much_is_cut_at_a_whole_sign_and_said_so(root: Path) -> None:
    (root / "AGENTS.md").write_text("é" * 20_000)
    (root / "CLAUDE.md").write_text("more")
    found = read_project_docs(str(root), str(root), limit=1_001)
    assert found.is_cut
    assert found.text.count("é") == 500
    assert "[AGENTS.md cut" in found.text
    assert "\N{REPLACEMENT CHARACTER}" not in found.text


def test_what_no_longer_fits_at_all_is_named(root: Path) -> None:
    (root / "AGENTS.md").write_text("x" * 10)
    (root / "CLAUDE.md").write_text("more")
    assert "[CLAUDE.md left out" in read_project_docs(str(root), str(root), limit=10).text
