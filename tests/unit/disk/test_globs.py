"""Patterns of files name what a shell's would, and never anything outside of the folder."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.disk.globs import files, matches, problem


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("out.txt", "out.txt"), ("./out.txt", "out.txt"), ("*.txt", "a.txt"), ("a?c", "abc"), ("out/*", "out/x"),
        ("**/*.xml", "r.xml"), ("**/*.xml", "deep/er/r.xml"), ("out/**", "out/a/b"), ("out/**", "out/a"), ("out/", "out/a/b"),
        ("a/**/z", "a/z"), ("a/**/z", "a/b/c/z"), ("[ab].txt", "b.txt"), ("[!a].txt", "b.txt"), ("[a-c]", "b"), ("[]]", "]"),
        (".env", ".env"), (".*", ".env"), (".cfg/*", ".cfg/x"), ("a[", "a["), ("**", "a/b/c"), ("***.txt", "a.txt"), ("**", "zwei\nzeilen"),
    ],
)  # fmt: skip
def test_a_pattern_names(pattern: str, name: str) -> None:
    assert matches([pattern], name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*.txt", "a/b.txt"), ("out/*", "out/a/b"), ("out/**", "out"), ("*", ".env"), ("**", ".env"), ("**/x", ".git/x"), ("?env", ".env"),
        ("[.]env", ".env"), ("a?c", "a/c"), ("[!a]", "/"), ("OUT/*", "out/x"), (".git/*", ".git/config"), ("**", "a/.git/config"), ("a.c", "abc"),
        ("/etc/*", "etc/passwd"), ("../*", "../x"), ("a/../../x", "x"), ("", ""), (" ", " "),
    ],
)  # fmt: skip
def test_a_pattern_does_not_name(pattern: str, name: str) -> None:
    assert not matches([pattern], name)


@pytest.mark.parametrize("pattern", ["", "  ", "/etc/*", "../x", "a/../../x"])
def test_a_pattern_that_leads_out_is_known(pattern: str) -> None:
    assert problem(pattern)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt", ".git/d.txt", "sub/.hidden/e.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f.txt").write_text("x")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "sub/loop").symlink_to(root)
    return root


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["a.txt"]),
        ("**/*.txt", ["a.txt", "sub/b.txt", "sub/deep/c.txt"]),
        ("sub/*.txt", ["sub/b.txt"]),
        ("sub/deep/c.txt", ["sub/deep/c.txt"]),
        ("sub/.hidden/*", ["sub/.hidden/e.txt"]),
        ("link/*", []),
        ("*/f.txt", []),
        ("missing/**", []),
        ("/etc/passwd", []),
        ("../outside/*", []),
    ],
)
def test_the_files_of_a_pattern_are_found_without_following_links(tree: Path, pattern: str, found: list[str]) -> None:
    assert sorted(files(str(tree), pattern)) == found


def test_a_pattern_looks_no_deeper_than_it_can_match(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    walk = os.walk

    def watched(top: str) -> object:
        for each in walk(top):
            looked.append(os.path.relpath(each[0], tree))
            yield each

    monkeypatch.setattr(os, "walk", watched)
    list(files(str(tree), "a.txt"))
    list(files(str(tree), "sub/deep/*.txt"))

    assert looked == [".", "sub/deep"]


NAMES = st.lists(
    st.text("ab.", min_size=1, max_size=3).filter(lambda name: name.strip(".")), min_size=1, max_size=4
).map("/".join)


@given(NAMES)
def test_a_plain_name_names_itself_and_nothing_else(name: str) -> None:
    assert matches([name], name)
    assert not matches([name], name + "a")


@given(st.text("ab*?[]!./-", max_size=12), NAMES)
def test_no_pattern_breaks_the_matcher(pattern: str, name: str) -> None:
    assert matches([pattern], name) in (True, False)
