"""Searching: bounded in what it shows and how long it takes, and never outside the root or inside `.git`."""

from pathlib import Path

import pytest

from perdure.agents.tools.search import GLOB, GREP, LIST

from .conftest import Desk


@pytest.fixture
def tree(desk: Desk) -> Desk:
    desk.use([LIST, GLOB, GREP])
    for name, text in {
        "a.py": "import os\nx = 1\n",
        "src/b.py": "X = 2\r\n",
        "src/deep/c.txt": "ünïcode x\n",
        ".git/config": "x = secret\n",
        "bin": "x\0",
    }.items():
        (desk.root / name).parent.mkdir(parents=True, exist_ok=True)
        (desk.root / name).write_bytes(text.encode())
    return desk


def test_a_folder_is_listed_folders_first(tree: Desk) -> None:
    (tree.root / "link").symlink_to("a.py")
    assert tree.ok("list") == ".git/\nsrc/\na.py  16 bytes\nbin  2 bytes\nlink -> a.py"
    assert "no folder" in tree.fault("list", path="a.py")


def test_a_pattern_finds_files_the_last_changed_first(tree: Desk) -> None:
    import os

    os.utime(tree.root / "a.py", ns=(1, 1))
    assert tree.ok("glob", pattern="**/*.py") == "src/b.py\na.py"
    assert tree.ok("glob", pattern="*.txt", path="src/deep") == "src/deep/c.txt"
    assert "No file" in tree.ok("glob", pattern="*.rs")
    assert "leads out" in tree.fault("glob", pattern="../*")


def test_lines_are_found_with_their_places(tree: Desk) -> None:
    assert tree.ok("grep", pattern=r"^x\b", ignore_case=True) == "a.py:2:x = 1\nsrc/b.py:1:X = 2"
    assert tree.ok("grep", pattern="x", glob="**/*.txt") == "src/deep/c.txt:1:ünïcode x"
    assert tree.ok("grep", pattern="x", path="a.py") == "a.py:2:x = 1"
    assert tree.ok("grep", pattern="nothing") == "No line matches."


def test_a_bad_expression_is_named(tree: Desk) -> None:
    assert "no regular expression" in tree.fault("grep", pattern="(")


def test_a_link_that_leads_out_is_not_followed(tree: Desk, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("needle")
    (tree.root / "folder").symlink_to(tmp_path / "out")
    (tree.root / "file").symlink_to(tmp_path / "out/secret")
    assert tree.ok("grep", pattern="needle") == "No line matches."
    assert "outside" in tree.fault("grep", pattern="needle", path="folder")
    assert "outside" in tree.fault("list", path="folder")
    assert "outside" in tree.fault("glob", pattern="*", path="folder")


def test_much_is_cut_and_said_so(tree: Desk) -> None:
    (tree.root / "many").write_text("hit\n" * 600)
    assert "only the first 500 lines" in tree.ok("grep", pattern="hit")


def test_a_pattern_that_never_ends_is_ended(tree: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import perdure.agents.tools.grep_worker as worker; worker.LIMIT_S = -1\n"
        "import signal; real = signal.alarm; signal.alarm = lambda n: real(1); worker.main()"
    )
    monkeypatch.setattr("perdure.agents.tools.search._WORKER", source)
    (tree.root / "many").write_text("a" * 60 + "!\n")
    assert "simpler pattern" in tree.ok("grep", pattern="(a+)+$", path="many")


def test_no_module_of_the_worktree_runs_in_a_search(tree: Desk) -> None:
    for name in ("re.py", "signal.py", "msgspec.py", "sitecustomize.py"):
        (tree.root / name).write_text("open('ran', 'w')")
    (tree.root / "perdure").mkdir()
    (tree.root / "perdure" / "__init__.py").write_text("open('ran', 'w')")
    assert "a.py:2" in tree.ok("grep", pattern="^x")
    assert not (tree.root / "ran").exists()
