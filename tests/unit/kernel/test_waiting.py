"""Questions, times, pauses, cancels and child runs."""

import asyncio
from collections import Counter

import pytest

from perdure.base.jsonvalue import JSON
from perdure.kernel.context import OperationContext, RunContext
from perdure.kernel.operation import operation
from perdure.kernel.outcome import Outcome
from perdure.kernel.question import Answer, Option, Question
from perdure.store.sqlite import SqliteStore

from .conftest import Bench, ProgramDefinition

GO = Question("Go?", "multiple_choice", [Option("y", "Yes"), Option("n", "No")])
calls: Counter[str] = Counter()


@operation("test.touch")
async def touch(op: OperationContext, input: JSON) -> JSON:
    calls[str(input)] += 1
    return input


@operation("test.hang")
async def hang(op: OperationContext, input: JSON) -> JSON:
    try:
        await asyncio.Event().wait()
    finally:
        calls["ended"] += 1
    return None


@pytest.fixture(autouse=True)
def _forget_calls() -> None:
    calls.clear()


async def gated(run: RunContext) -> Outcome:
    await run.step("before", "test.touch", "before")
    answer = await run.ask("gate", GO)
    await run.step("after", "test.touch", "after")
    return Outcome("succeeded", output=list(answer.selected))


def test_a_run_that_nobody_here_can_answer_parks_and_goes_on_after_the_answer(bench: Bench) -> None:
    bench.engine = bench.new_engine(park=True)
    run_id = bench.submit(gated)
    assert bench.execute(run_id).status == "waiting"
    row = bench.store.find_run(run_id)
    assert row is not None
    assert row.owner is None
    [question] = bench.store.open_questions(row.no)

    assert bench.engine.answer(question.question_id, Answer("selected", ["y"]))
    assert not bench.engine.answer(question.question_id, Answer("selected", ["n"]))
    result = bench.execute(run_id)

    assert result.outcome is not None
    assert result.outcome.output == ["y"]
    assert calls == {"before": 1, "after": 1}
    assert bench.names(run_id).count("interview.started") == 1


def test_a_waiting_run_hears_an_answer_from_another_connection(bench: Bench) -> None:
    run_id = bench.submit(gated)

    async def both() -> object:
        task = asyncio.create_task(bench.engine.execute(run_id))
        other = SqliteStore.open(str(bench.folder / "state.sqlite"))
        try:
            while not (questions := other.open_questions()):
                await asyncio.sleep(0.01)
            other.answer(questions[0].question_id, '{"kind":"selected","selected":["n"]}', 1)
            async with asyncio.timeout(10):
                return (await task).outcome
        finally:
            other.close()

    outcome = asyncio.run(both())
    assert isinstance(outcome, Outcome)
    assert outcome.output == ["n"]


def test_two_open_questions_are_answered_apart(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        scope = run.scope("fan")
        answers = await run.gather([lambda: scope.ask("one", GO), lambda: scope.ask("two", GO)])
        return Outcome("succeeded", output=[answer.selected[0] for answer in answers])

    bench.engine = bench.new_engine(park=True)
    run_id = bench.submit(program)
    assert bench.execute(run_id).status == "waiting"
    questions = {row.step: row.question_id for row in bench.store.open_questions()}
    bench.engine.answer(questions["fan/two"], Answer("selected", ["n"]))
    assert bench.execute(run_id).status == "waiting"
    assert [row.step for row in bench.store.open_questions()] == ["fan/one"]
    bench.engine.answer(questions["fan/one"], Answer("selected", ["y"]))

    result = bench.execute(run_id)
    assert result.outcome is not None
    assert result.outcome.output == ["y", "n"]


@pytest.mark.parametrize(("default", "kind", "by"), [("n", "selected", "default"), (None, "timeout", "nobody")])
def test_silence_takes_the_declared_default_and_never_is_consent_without_one(
    bench: Bench, default: str | None, kind: str, by: str
) -> None:
    async def program(run: RunContext) -> Outcome:
        answer = await run.ask("gate", Question("Go?", "multiple_choice", GO.options, default=default, timeout_ms=20))
        return Outcome("succeeded", output=[answer.kind, answer.by, answer.is_consent])

    result = bench.run(program)

    assert result.outcome is not None
    assert result.outcome.output == [kind, by, kind == "selected"]
    assert "interview.timeout" in bench.names(result.run_id)


def test_a_wait_is_counted_from_its_first_beginning(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        await run.sleep("nap", 60_000)
        return Outcome("succeeded")

    class LateClock:
        late = 0

        def now_ms(self) -> int:
            return 1_000_000 + self.late

        def monotonic_ms(self) -> float:
            return 0.0

    clock = LateClock()
    bench.engine = bench.new_engine(clock=clock)
    run_id = bench.submit(program)

    async def interrupted() -> None:
        task = asyncio.create_task(bench.engine.execute(run_id))
        while "step.started" not in bench.names(run_id):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    clock.late = 60_000

    assert bench.execute(run_id).status == "succeeded"


def _ask_of_owner(bench: Bench, run_id: str, kind: str, after: str) -> object:
    """Execute the run, and ask something of it from another connection after an event."""

    async def both() -> object:
        task = asyncio.create_task(bench.engine.execute(run_id))
        other = SqliteStore.open(str(bench.folder / "state.sqlite"))
        try:
            row = other.find_run(run_id)
            assert row is not None
            while after not in [each.event for each in other.read_events(row.no)]:
                await asyncio.sleep(0.01)
            other.request(row.no, kind, "{}", 1)
            async with asyncio.timeout(10):
                return await task
        finally:
            other.close()

    return asyncio.run(both())


def test_a_cancel_reaches_the_operation_and_settles_the_run(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        await run.step("hang", "test.hang")
        return Outcome("succeeded")

    run_id = bench.submit(program)
    _ask_of_owner(bench, run_id, "cancel", "step.started")

    row = bench.store.find_run(run_id)
    assert row is not None
    assert row.status == "cancelled"
    assert calls["ended"] == 1


def test_a_pause_lets_the_begun_step_end_and_starts_no_other(bench: Bench) -> None:
    begun = asyncio.Event()

    @operation("test.slow")
    async def slow(op: OperationContext, input: JSON) -> JSON:
        begun.set()
        await asyncio.sleep(0.4)
        return None

    async def program(run: RunContext) -> Outcome:
        await run.step("slow", "test.slow")
        await run.step("next", "test.touch", "next")
        return Outcome("succeeded")

    run_id = bench.submit(program)
    _ask_of_owner(bench, run_id, "pause", "step.started")
    row = bench.store.find_run(run_id)
    assert row is not None
    assert row.status == "paused"
    assert calls["next"] == 0

    assert bench.execute(run_id).status == "succeeded"
    assert calls["next"] == 1


def test_an_interrupt_of_the_owner_leaves_the_run_paused_and_resumable(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        await run.step("hang", "test.hang" if not calls["ended"] else "test.touch", None)
        return Outcome("succeeded")

    run_id = bench.submit(program)

    async def interrupted() -> None:
        task = asyncio.create_task(bench.engine.execute(run_id))
        while "step.started" not in bench.names(run_id):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    row = bench.store.find_run(run_id)
    assert row is not None
    assert (row.status, row.owner) == ("paused", None)


def test_a_child_run_is_made_once_and_resumed_with_its_parent(bench: Bench) -> None:
    bench.engine = bench.new_engine(park=True)
    child = ProgramDefinition(gated, "child")

    async def program(run: RunContext) -> Outcome:
        outcome = await run.child("sub", child, "input")
        return Outcome(outcome.status, output=outcome.output)

    parent = ProgramDefinition(program, "parent")
    run_id = bench.engine.submit(parent)

    from perdure.kernel import definition as definitions

    definitions.register("program", lambda body: {"child": child, "parent": parent}[str(body.get("name", "parent"))])
    child.body = lambda: {"name": "child"}  # type: ignore[method-assign]
    assert bench.execute(run_id).status == "waiting"
    [made] = bench.store.child_runs(run_id)
    [question] = bench.store.open_questions()
    assert question.run_id == made.run_id
    bench.engine.answer(question.question_id, Answer("selected", ["y"]))
    result = bench.execute(run_id)

    assert result.outcome is not None
    assert result.outcome.output == ["y"]
    assert calls == {"before": 1, "after": 1}
    assert len(bench.store.child_runs(run_id)) == 1


def test_only_one_of_two_owners_executes_a_run(bench: Bench) -> None:
    from perdure.base.errors import OwnedElsewhere

    run_id = bench.submit(gated)

    async def both() -> None:
        first = asyncio.create_task(bench.engine.execute(run_id))
        while "interview.started" not in bench.names(run_id):
            await asyncio.sleep(0.01)
        with pytest.raises(OwnedElsewhere, match="pid"):
            await bench.engine.execute(run_id)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(both())


def test_an_owner_that_was_taken_over_writes_nothing_more(bench: Bench) -> None:
    from perdure.store.records import ClaimLost

    async def program(run: RunContext) -> Outcome:
        await run.step("one", "test.touch", "one")
        bench.store._db.execute("update runs set epoch = epoch + 1")
        await run.step("two", "test.touch", "two")
        return Outcome("succeeded")

    run_id = bench.submit(program)
    with pytest.raises(ClaimLost):
        bench.execute(run_id)
    assert calls["two"] == 0


async def two_gates(run: RunContext) -> Outcome:
    async def branch(name: str) -> None:
        await run.ask(f"gate-{name}", GO)
        await run.step(f"after-{name}", "test.touch", name)

    await run.gather([lambda name=name: branch(name) for name in ("left", "right")])  # type: ignore[misc]
    return Outcome("succeeded")


def test_a_run_parks_again_when_one_of_two_branches_has_ended(bench: Bench) -> None:
    bench.engine = bench.new_engine(park=True)
    run_id = bench.submit(two_gates)
    assert bench.execute(run_id).status == "waiting"
    row = bench.store.find_run(run_id)
    assert row is not None
    left, right = bench.store.open_questions(row.no)

    assert bench.engine.answer(right.question_id, Answer("selected", ["y"]))
    assert bench.execute(run_id).status == "waiting"
    assert calls == {"right": 1}
    assert bench.engine.answer(left.question_id, Answer("selected", ["y"]))
    assert bench.execute(run_id).status == "succeeded"
    assert calls == {"right": 1, "left": 1}


async def a_gate_beside_work(run: RunContext) -> Outcome:
    async def ask() -> None:
        await run.ask("gate", GO)

    async def work() -> None:
        for turn in range(5):
            await run.step("work", "test.touch", turn)
            for _ in range(20):
                await asyncio.sleep(0)

    await run.gather([ask, work])
    return Outcome("succeeded")


def test_a_run_does_not_park_while_a_branch_is_between_two_steps(bench: Bench) -> None:
    bench.engine = bench.new_engine(park=True)
    assert bench.execute(bench.submit(a_gate_beside_work)).status == "waiting"

    assert calls == {str(turn): 1 for turn in range(5)}
