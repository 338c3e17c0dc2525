"""The store against a plain model: claims, appends, answers and settlements in any order, with reopenings between."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from perdure.store.records import Change, Claim, ClaimLost, EventRow, NewRun, Settlement
from perdure.store.sqlite import SqliteStore


class StoreMachine(RuleBasedStateMachine):
    """`model` is what must be there: per run its event numbers, its status, its owner."""

    claims = Bundle("claims")

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.store = SqliteStore.open(str(self.folder / "state.sqlite"), durability="normal")
        self.model: dict[str, dict[str, Any]] = {}
        self.questions: dict[str, str | None] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    @rule(target=claims)
    def make_run(self) -> Claim:
        run_id = f"R{len(self.model)}"
        row = NewRun(run_id, "n", "k", "running", len(self.model), "/d", "{}", owner="first")
        claim = self.store.insert_run(row, [EventRow(1, bytes(16), 1, "e", None, b"{}")])
        self.model[run_id] = {"seqs": [1], "status": "running", "epoch": claim.epoch, "owner": "first"}
        return claim

    @rule(target=claims, claim=claims, owner=st.sampled_from(["a", "b"]))
    def take_over(self, claim: Claim, owner: str) -> Claim:
        new = self.store.claim(claim.run_id, owner, lambda _row: None)
        self.model[claim.run_id] |= {"epoch": new.epoch, "owner": owner}
        return new

    @rule(claim=claims, count=st.integers(1, 5))
    def append(self, claim: Claim, count: int) -> None:
        run = self.model[claim.run_id]
        first = run["seqs"][-1] + 1
        rows = [EventRow(seq, bytes(16), seq, "e", "s", b"{}") for seq in range(first, first + count)]
        try:
            self.store.append(claim, rows)
        except ClaimLost:
            assert claim.epoch != run["epoch"]
        else:
            assert claim.epoch == run["epoch"]
            run["seqs"] += [row.seq for row in rows]

    @rule(claim=claims)
    def settle(self, claim: Claim) -> None:
        run = self.model[claim.run_id]
        if claim.epoch == run["epoch"] and run["status"] == "running":
            self.store.append(claim, [], Change(settled=Settlement("failed", 5, "{}")))
            run |= {"status": "failed", "owner": None}
            for question_id in [each for each in self.questions if each.startswith(f"{claim.run_id}.")]:
                del self.questions[question_id]

    @rule(claim=claims)
    def ask(self, claim: Claim) -> None:
        run = self.model[claim.run_id]
        question_id = f"{claim.run_id}.{len(self.questions)}"
        if claim.epoch == run["epoch"] and run["status"] == "running" and question_id not in self.questions:
            self.store.append(claim, [], Change(open_questions=((question_id, "s", 1, "{}"),)))
            self.questions[question_id] = None

    @rule(data=st.data(), text=st.sampled_from(['"x"', '"y"']))
    def answer(self, data: st.DataObject, text: str) -> None:
        if self.questions:
            question_id = data.draw(st.sampled_from(sorted(self.questions)))
            taken = self.store.answer(question_id, text, 2)
            assert taken == (self.questions[question_id] is None)
            if taken:
                self.questions[question_id] = text

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteStore.open(str(self.folder / "state.sqlite"), durability="full")

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        for run_id, run in self.model.items():
            row = self.store.find_run(run_id)
            assert row is not None
            assert (row.status, row.owner, row.epoch) == (run["status"], run["owner"], run["epoch"])
            assert [each.seq for each in self.store.read_events(row.no)] == run["seqs"]
        assert {each.question_id: each.answer for each in self.store.open_questions()} == self.questions


TestStore = StoreMachine.TestCase
