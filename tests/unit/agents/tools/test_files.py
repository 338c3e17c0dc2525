"""Files: nothing outside the root is touched, nothing unseen is replaced, and every byte that was not meant stays."""

import os
from pathlib import Path

import pytest

from .conftest import Desk


def test_arguments_that_are_no_json_come_back_as_an_error(desk: Desk) -> None:
    outcome = desk.raw("read", '{"path": ')
    assert outcome.is_error
    assert "no JSON" in outcome.text


@pytest.mark.parametrize("arguments", ["[]", '{"path": "\\ud83d"}', "[" * 100_000, "1" * 5_000])
def test_hostile_arguments_come_back_as_an_error(desk: Desk, arguments: str) -> None:
    assert desk.raw("read", arguments).is_error


def test_a_fault_in_the_arguments_is_named_with_its_path(desk: Desk) -> None:
    assert "`$.path`" in desk.fault("read", path=["a"])
    assert "`path`" in desk.fault("read")
    assert "paht" in desk.fault("read", path="a", paht="b")


def test_a_number_written_as_text_is_taken(desk: Desk) -> None:
    (desk.root / "a").write_text("one\ntwo\n")
    assert desk.ok("read", path="a", offset="2") == "     2\ttwo"


def test_an_unknown_tool_is_answered_with_the_names_there_are(desk: Desk) -> None:
    assert "read, write, edit" in desk.fault("raed")


def test_the_schema_of_a_tool_is_one_flat_object(desk: Desk) -> None:
    [schema] = [each.parameters for each in desk.toolbox.definitions() if each.name == "edit"]
    assert schema["type"] == "object"
    assert schema["required"] == ["path", "old_string", "new_string"]
    assert schema["additionalProperties"] is False
    assert "$ref" not in str(schema)


def test_a_file_is_read_with_numbers_and_by_windows(desk: Desk) -> None:
    (desk.root / "a").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert desk.ok("read", path="a", offset=3, limit=2) == (
        "     3\tline 3\n     4\tline 4\n[6 more lines; go on with offset 5]"
    )
    assert "has 10 lines" in desk.fault("read", path="a", offset=11)


def test_an_empty_file_and_a_missing_one_are_told_apart(desk: Desk) -> None:
    (desk.root / "a").write_text("")
    assert desk.ok("read", path="a") == "a is empty."
    assert "no file b" in desk.fault("read", path="b")


def test_what_is_no_text_is_refused_kindly(desk: Desk) -> None:
    (desk.root / "bin").write_bytes(b"\x7fELF\0\0")
    (desk.root / "png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    os.mkfifo(desk.root / "pipe")
    assert "binary" in desk.fault("read", path="bin")
    assert "image" in desk.fault("read", path="png")
    assert "no regular file" in desk.fault("read", path="pipe")
    assert "root folder" in desk.fault("read", path=".")
    with (desk.root / "huge").open("wb") as file:
        file.truncate(30 * 1024 * 1024)
    assert "grep" in desk.fault("read", path="huge")


def test_bytes_that_are_no_utf8_are_shown_but_not_edited(desk: Desk) -> None:
    (desk.root / "a").write_bytes(b"caf\xe9\n")
    assert "caf\N{REPLACEMENT CHARACTER}" in desk.ok("read", path="a")
    assert "no UTF-8" in desk.fault("edit", path="a", old_string="caf", new_string="x")
    assert (desk.root / "a").read_bytes() == b"caf\xe9\n"


def test_a_long_file_is_cut_and_all_of_it_can_be_read_on(desk: Desk) -> None:
    (desk.root / "a").write_text("".join(f"{n:04} {'x' * 60}\n" for n in range(1_500)))
    outcome = desk.call("read", path="a")
    assert len(outcome.text) < 31_000
    assert "0000 x" in outcome.text
    assert "1499 x" in outcome.text
    assert 'call_id "call-1"' in outcome.text
    assert "0750 x" in desk.ok("read_output", call_id="call-1", offset=50_000)


def test_an_unread_file_is_neither_written_nor_edited(desk: Desk) -> None:
    (desk.root / "a").write_text("old")
    assert "Read it first" in desk.fault("write", path="a", content="new")
    assert "Read it first" in desk.fault("edit", path="a", old_string="old", new_string="new")
    assert (desk.root / "a").read_text() == "old"


def test_a_file_that_changed_since_it_was_read_is_not_written(desk: Desk) -> None:
    (desk.root / "a").write_text("old")
    desk.ok("read", path="a")
    (desk.root / "a").write_text("theirs")
    assert "changed since" in desk.fault("write", path="a", content="new")
    desk.ok("read", path="a")
    desk.ok("write", path="a", content="new")
    desk.ok("edit", path="a", old_string="new", new_string="newer")
    assert (desk.root / "a").read_text() == "newer"


def test_a_new_file_is_made_with_its_folders(desk: Desk) -> None:
    assert "Made d/e/f" in desk.ok("write", path="d/e/f", content="x\r\nü")
    assert (desk.root / "d/e/f").read_bytes() == "x\r\nü".encode()
    assert [each.name for each in (desk.root / "d/e").iterdir()] == ["f"]


def test_an_edit_must_match_once(desk: Desk) -> None:
    (desk.root / "a").write_text("x y x")
    desk.ok("read", path="a")
    assert "not in a" in desk.fault("edit", path="a", old_string="z", new_string="")
    assert "2 times" in desk.fault("edit", path="a", old_string="x", new_string="z")
    assert "2 places" in desk.ok("edit", path="a", old_string="x", new_string="z", replace_all=True)
    assert (desk.root / "a").read_text() == "z y z"


def test_an_edit_keeps_line_ends_byte_order_mark_and_mode(desk: Desk) -> None:
    path = desk.root / "a"
    path.write_bytes("\ufeffone\r\ntwo\r\nthree\r\n".encode())
    path.chmod(0o755)
    desk.ok("read", path="a")
    desk.ok("edit", path="a", old_string="one\ntwo", new_string="1\n2")
    assert path.read_bytes() == "\ufeff1\r\n2\r\nthree\r\n".encode()
    assert path.stat().st_mode & 0o777 == 0o755


def test_an_edit_of_mixed_line_ends_touches_only_its_place(desk: Desk) -> None:
    (desk.root / "a").write_bytes(b"one\r\ntwo\nthree\r\n")
    desk.ok("read", path="a")
    desk.ok("edit", path="a", old_string="two\n", new_string="2\n")
    assert (desk.root / "a").read_bytes() == b"one\r\n2\nthree\r\n"


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "link/out", "~/out", "link-file", "d/../../out"])
def test_nothing_outside_the_root_is_read_or_written(desk: Desk, tmp_path: Path, path: str) -> None:
    (tmp_path / "out").write_text("secret")
    (desk.root / "link").symlink_to(tmp_path)
    (desk.root / "link-file").symlink_to(tmp_path / "out")
    assert "outside" in desk.fault("read", path=path)
    assert "outside" in desk.fault("write", path=path, content="x")
    assert (tmp_path / "out").read_text() == "secret"


def test_an_absolute_path_and_a_link_inside_the_root_are_fine(desk: Desk) -> None:
    desk.ok("write", path=str(desk.root / "a"), content="x")
    (desk.root / "link").symlink_to("a")
    desk.ok("read", path="link")
    desk.ok("edit", path="link", old_string="x", new_string="y")
    assert (desk.root / "link").is_symlink()
    assert (desk.root / "a").read_text() == "y"


def test_the_files_of_git_are_not_written(desk: Desk) -> None:
    (desk.root / ".git").mkdir()
    assert "belongs to Git" in desk.fault("write", path=".git/hooks/pre-commit", content="#!/bin/sh")


def test_a_hidden_folder_inside_the_root_is_closed(desk: Desk) -> None:
    (desk.root / "state").mkdir()
    (desk.root / "state/key").write_text("k")
    desk.context.hidden = (str(desk.root / "state"),)
    assert "not for agents" in desk.fault("read", path="state/key")


def test_an_edit_that_was_done_before_the_kill_is_not_done_again(desk: Desk) -> None:
    (desk.root / "a").write_text("one two")
    desk.ok("read", path="a")
    (desk.root / "a").write_text("one two two")
    outcome = desk.call("edit", path="a", old_string="two", new_string="two two", interrupted=True)
    assert not outcome.is_error
    assert (desk.root / "a").read_text() == "one two two"
    desk.ok("edit", path="a", old_string="one", new_string="1")


def test_an_edit_that_was_not_done_before_the_kill_is_done(desk: Desk) -> None:
    (desk.root / "a").write_text("one two")
    desk.ok("read", path="a")
    assert not desk.call("edit", path="a", old_string="two", new_string="2", interrupted=True).is_error
    assert (desk.root / "a").read_text() == "one 2"


@pytest.mark.parametrize(
    ("after", "old", "new"), [("one ", "two", ""), ("1 two", "one", "1"), ("one one two", "one ", "one one ")]
)
def test_every_kind_of_done_edit_is_known_again(desk: Desk, after: str, old: str, new: str) -> None:
    (desk.root / "a").write_text("one two")
    desk.ok("read", path="a")
    (desk.root / "a").write_text(after)
    assert not desk.call("edit", path="a", old_string=old, new_string=new, interrupted=True).is_error
    assert (desk.root / "a").read_text() == after


def test_an_interrupted_edit_of_a_file_that_somebody_changed_is_an_error(desk: Desk) -> None:
    (desk.root / "a").write_text("one two")
    desk.ok("read", path="a")
    (desk.root / "a").write_text("other two")
    assert "changed since" in desk.call("edit", path="a", old_string="two", new_string="2", interrupted=True).text
    assert (desk.root / "a").read_text() == "other two"


def test_a_write_that_was_done_before_the_kill_counts_as_done_and_leaves_nothing(desk: Desk) -> None:
    import hashlib

    (desk.root / "a").write_text("new")
    mark = hashlib.sha256(b"call-1").hexdigest()[:12]
    (desk.root / f".a.{mark}.perdure-tmp").write_text("ne")
    assert not desk.call("write", path="a", content="new", interrupted=True).is_error
    assert [each.name for each in desk.root.iterdir()] == ["a"]
    desk.ok("edit", path="a", old_string="new", new_string="x")


def test_no_secret_is_in_what_is_kept_of_a_long_file(desk: Desk) -> None:
    from perdure.base.masking import Masker

    desk.context.new_filter = Masker(["hush-hush-hush"]).stream
    (desk.root / "a").write_text("".join(f"{n} hush-hush-hush {'x' * 60}\n" for n in range(1_000)))
    outcome = desk.call("read", path="a")
    assert "hush-hush" not in outcome.text
    assert "hush-hush" not in str(desk.context.kept["call-1"])
