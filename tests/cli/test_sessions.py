"""Conversations are found by id, step or reference, and what is not here is told apart: of another machine, collected, never saved."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Perdure  # type: ignore[import-not-found]
from perdure.agents.sessions.events import Delivery, End, Event, Review, encode_event, message_event
from perdure.agents.sessions.writer import SessionWriter
from perdure.base.ids import new_uuid7
from perdure.disk.home import StateHome
from perdure.llm.protocol import Message
from perdure.store.records import EventRow
from perdure.store.sqlite import SqliteStore

from .workflows import GATED, HELLO, only_run

Save = Callable[..., Path]


@pytest.fixture
def save(state_home: Path) -> Save:
    """Saves a session with these events; its file."""

    def save(*found: Event, **fields: object) -> Path:
        header = Review(**{"session_id": "01abc", "backend": "openai", "model": "m", "title": "Mend it", **fields})  # type: ignore[arg-type]
        writer = SessionWriter.open(StateHome(str(state_home)), header)
        for event in found or (
            message_event(1, Message("user", "Mend it")),
            message_event(1, Message("assistant", "Mended \x1b[2J")),
            End(),
        ):
            writer.append(event)
        writer.close()
        return state_home / "agent-sessions" / f"{header.session_id}.jsonl"

    return save


@pytest.fixture
def run_id(perdure: Perdure, tmp_path: Path) -> str:
    """A run that has ended; its only node is `hi`."""
    (tmp_path / "hello.fabro").write_text(HELLO % '"true"')
    perdure("run", "hello.fabro").succeeded()
    return str(only_run(perdure)["run_id"])


def test_without_sessions_the_list_is_empty_and_nothing_is_made(perdure: Perdure, state_home: Path) -> None:
    assert perdure("session", "list", "--json").succeeded().json == []
    assert perdure("session", "list").succeeded().out == "There are no sessions.\n"
    assert not state_home.exists()


def test_the_list_names_what_cannot_be_read_and_shows_the_rest(perdure: Perdure, save: Save) -> None:
    save().with_name("bad.jsonl").write_text("nothing\n}\n")
    ran = perdure("session", "list").succeeded()
    assert [line.split()[0] for line in ran.out.splitlines()] == ["SESSION", "01abc"]
    assert ran.err.startswith("warn: skipped bad.jsonl: ")


def test_a_conversation_is_shown_with_what_moves_a_terminal_made_harmless(perdure: Perdure, save: Save) -> None:
    save()
    ran = perdure("session", "show", "01a").succeeded()
    assert "\nUser\nMend it\n\nAgent\nMended \\x1b[2J\n\nThe work ended.\n" in ran.out


def test_json_is_every_event_as_it_stands(perdure: Perdure, save: Save) -> None:
    path = save(Delivery(turn=1, attempt=1, block=0, content_kind="text"), End())
    found = perdure("session", "show", "01abc", "--json").succeeded().json
    assert found["reference"] == "01abc"
    assert found["file"] == str(path)
    assert found["events"] == [json.loads(line) for line in path.read_text().splitlines()]


def test_a_summary_has_its_figures_in_json(perdure: Perdure, save: Save) -> None:
    save()
    found = perdure("session", "show", "01abc", "--summary", "--json").succeeded().json
    assert found["backend"] == "openai"
    assert found["toolCalls"] == {"calls": 0, "failed": 0}
    assert found["turns"] == 1
    assert found["followUps"] == 0


def test_what_a_kill_cut_off_is_told_and_is_no_failure(perdure: Perdure, save: Save) -> None:
    path = save()
    path.write_bytes(path.read_bytes() + b'{"kind":"mes')
    ran = perdure("session", "show", "01abc").succeeded()
    assert ran.err == f"warn: {path}: line 5 (byte {path.stat().st_size - 12}) was cut off and is ignored\n"
    assert "The work ended." in ran.out


def test_a_line_that_is_no_event_fails_after_all_else_was_shown(perdure: Perdure, save: Save) -> None:
    path = save(message_event(1, Message("user", "Mend it")))
    path.write_bytes(path.read_bytes() + b'{"kind":"riddle"}\n' + encode_event(End()) + b"\n")
    ran = perdure("session", "show", "01abc")
    assert ran.code == 2
    assert "line 3" in ran.err
    assert "The work ended." in ran.out


def test_following_shows_what_comes_until_the_work_ends(perdure: Perdure, save: Save, state_home: Path) -> None:
    path = save(message_event(1, Message("user", "Mend it")))
    follower = subprocess.Popen(
        [sys.executable, "-m", "perdure.cli.entry", "session", "show", "01abc", "--follow"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        env=os.environ,
    )
    assert follower.stdout is not None
    lines = iter(follower.stdout.readline, "")
    assert "Mend it\n" in lines
    final = encode_event(message_event(2, Message("assistant", "Mended é"))) + b"\n"
    with path.open("ab", buffering=0) as file:
        file.write(encode_event(Delivery(turn=2, attempt=1, block=0, content_kind="text", text="Mend")) + b"\n")
        cut = final.index("é".encode()) + 1
        file.write(final[:cut])
        file.write(final[cut:] + encode_event(End()) + b"\n")
    assert "".join(lines) == "\nAgent\nMended é\n\nThe work ended.\n"
    follower.stdout.close()
    assert follower.wait() == 0


def test_a_step_names_its_session_and_a_node_its_last_visits(perdure: Perdure, save: Save, run_id: str) -> None:
    save(session_id="one", run_id=run_id, request_id="hi@1", eval_id="hi")
    save(session_id="two", run_id=run_id, request_id="hi@2", eval_id="hi")
    for reference, wanted in ((f"{run_id}/hi@1", "one"), ("hello/hi@2", "two"), (f"{run_id[:15]}/hi", "two")):
        found = perdure("session", "show", reference, "--json").succeeded().json
        assert (reference, Path(found["file"]).stem) == (reference, wanted)
    ambiguous = perdure("session", "show", run_id)
    assert ambiguous.code == 2
    assert "one  hi@1" in ambiguous.err


def test_a_step_without_a_session_says_that_none_was_saved(perdure: Perdure, run_id: str) -> None:
    ran = perdure("session", "show", f"{run_id}/hi", "--json")
    assert ran.code == 2
    assert json.loads(ran.err)["error"]["code"] == "session_never_saved"
    assert perdure("session", "show", f"{run_id}/nobody").code == 4


def test_a_step_whose_session_is_gone_says_that_it_was_collected(
    perdure: Perdure, run_id: str, state_home: Path
) -> None:
    store = SqliteStore.open(str(state_home / "state.sqlite"))
    row = store.find_run(run_id)
    assert row is not None
    last = store.last_event(row.no)
    assert last is not None
    body = b'{"session_id":"01abc"}'
    event = EventRow(last.seq + 1, new_uuid7(), last.ts, "node.started", "hi@1/turn-1", body)
    claim = store.claim(run_id, "{}", lambda _row: None)
    store.append(claim, [event])
    store.close()
    ran = perdure("session", "show", f"{run_id}/hi@1", "--json")
    assert (ran.code, json.loads(ran.err)["error"]["code"]) == (2, "session_collected")


def state_id(perdure: Perdure, state_home: Path) -> str:
    import sqlite3

    with sqlite3.connect(state_home / "state.sqlite") as db:
        [found] = db.execute("select value from state_meta where key = 'state_id'").fetchone()
    db.close()
    return str(found)


def test_a_reference_is_shown_here_refused_elsewhere_and_told_when_its_session_is_gone(
    perdure: Perdure, save: Save, run_id: str, state_home: Path
) -> None:
    own = state_id(perdure, state_home)
    path = save(run_id=run_id, request_id="hi@1", producer="me@host", state=own)
    reference = perdure("session", "show", "01abc", "--json").succeeded().json["reference"]
    assert reference == f"me@host/{own}/{run_id}/hi@1/01abc"
    assert perdure("session", "show", reference).code == 0
    elsewhere = reference.replace(own, "01a22f69-0000-7000-8000-000000000000")
    path.unlink()
    for text, code in ((elsewhere, "session_remote"), (reference, "session_collected"), ("01abc", "session_unknown")):
        ran = perdure("session", "show", text, "--json")
        assert (ran.code, json.loads(ran.err)["error"]["code"]) == (2, code)


@pytest.mark.parametrize("name", ["../x", "..", "a\nb", "x" * 300])
def test_what_can_be_no_id_is_refused_before_a_file_is_touched(perdure: Perdure, save: Save, name: str) -> None:
    save()
    assert perdure("session", "show", name).code in (2, 4)


def test_pruning_shows_and_then_removes_sessions_beyond_the_bounds_but_none_of_a_run_that_goes_on(
    perdure: Perdure, tmp_path: Path, save: Save, run_id: str
) -> None:
    (tmp_path / "gated.fabro").write_text(GATED)
    assert perdure("run", "gated.fabro").code == 4
    [waiting] = [each["run_id"] for each in perdure("ps", "--json").json]
    kept, gone, new = (
        save(session_id="kept", run_id=waiting),
        save(session_id="gone", run_id=run_id),
        save(session_id="new"),
    )
    for age, path in ((30, kept), (20, gone), (10, new)):
        os.truncate(path, 380 * 1024 * 1024)  # a hole, which takes no room
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    shown = perdure("prune", "--json").succeeded().json
    assert [each["session_id"] for each in shown["sessions"]] == ["gone"]
    assert gone.exists()
    perdure("prune", "--yes").succeeded()
    assert (kept.exists(), gone.exists(), new.exists()) == (True, False, True)
