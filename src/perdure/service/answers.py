"""Answers out of a file, and a run's answers written into one: a run with gates that can be repeated without a person.

The file has one JSON object a line; docs/reference/answers-file.md says what stands in it. Which line answers a question follows from
the question's step alone, never from what was asked before, so a resumed run takes the same lines.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.base.errors import Refused
from perdure.disk.atomic import replace
from perdure.kernel.question import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.kernel.interviewer import PendingQuestion
    from perdure.service.state import State
    from perdure.store.records import RunRow


class BadAnswers(Refused):
    """A file of answers that cannot be used."""

    code = "bad_answers"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line. It is for the questions that fit all that it names; `answer` is a person's word, or a whole answer."""

    answer: str | Answer
    node_id: str = ""
    step: str = ""
    question_id: str = ""
    question: str = ""


class FileInterviewer:
    """Answers from a file's lines; a question that none of them fits is left to others. `tell` hears of a line that is no choice."""

    is_present = False

    def __init__(self, entries: list[Entry], tell: Callable[[str], None]) -> None:
        self._entries = entries
        self._tell = tell

    async def ask(self, pending: PendingQuestion) -> Answer | None:
        """The answer of the line for this question."""
        entry = entry_for(self._entries, pending)
        if entry is None:
            return None
        if isinstance(entry.answer, Answer):
            return msgspec.structs.replace(entry.answer, by="file")
        from perdure.service.running import answer_of

        try:
            answer = answer_of(entry.answer, pending.question)
        except Refused as error:
            self._tell(f"The file of answers has no usable one for {pending.step}: {error}")
            return None
        assert isinstance(answer, Answer)
        return msgspec.structs.replace(answer, by="file")


def entry_for(entries: list[Entry], pending: PendingQuestion) -> Entry | None:
    """The line that names this question or its step; else, of the lines for its node, the n-th at the node's n-th visit."""
    node_id = str(pending.question.metadata.get("node_id") or "")
    fitting = [each for each in entries if not each.question or each.question == pending.question.text]
    fitting = [each for each in fitting if not each.node_id or each.node_id == node_id]
    for each in fitting:
        if each.question_id and each.question_id == pending.question_id:
            return each
    for each in fitting:
        if each.step and each.step == pending.step:
            return each
    of_node = [each for each in fitting if not each.step and not each.question_id]
    visit = _visit(pending.step, node_id)
    return of_node[visit - 1] if visit <= len(of_node) else None


def _visit(step: str, node_id: str) -> int:
    found = re.search(rf"(?:^|/){re.escape(node_id)}@(\d+)(?:/|$)", step)
    return int(found.group(1)) if found else 1


def read_answers(path: str) -> list[Entry]:
    """The lines of a file of answers. Raises `BadAnswers` with the line that is none."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadAnswers(f"{path} cannot be read: {error}.") from error
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadAnswers(f"{path}:{number}: {error}.", hint='Write {"node_id": "gate", "answer": "Y"}.') from error
        if not (entry.node_id or entry.step or entry.question_id):
            raise BadAnswers(f"{path}:{number}: it names no question.", hint="Name its node_id, step or question_id.")
        entries.append(entry)
    return entries


def record_answers(state: State, row: RunRow, path: str) -> int:
    """Write a run's answers, and its child runs', as a file that can be given to another run; how many there are.

    It is made of the log, so it is whole whenever it is asked for. An answer that nobody gave is none."""
    entries = _answers_of(state, row)
    text = b"".join(msgspec.json.encode(each) + b"\n" for each in entries)
    replace(os.path.abspath(path), text, durable=True)
    return len(entries)


def _answers_of(state: State, row: RunRow) -> list[Entry]:
    from perdure.kernel.events import event_of

    found = []
    for each in state.store.read_events(row.no):
        if each.event == "interview.completed":
            event = event_of(row.run_id, each)
            found.append(_entry(event.step or "", event.properties))
    for child in state.store.child_runs(row.run_id):
        found += _answers_of(state, child)
    return found


def _entry(step: str, properties: dict[str, Any]) -> Entry:
    answer = msgspec.convert(properties["answer"], Answer)
    return Entry(answer, step=step, question=str(properties.get("question") or ""))
