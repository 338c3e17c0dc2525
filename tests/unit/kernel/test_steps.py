"""Steps: executed once, recorded, answered from the log."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from perdure.base.jsonvalue import JSON
from perdure.kernel.context import OperationContext, RunContext
from perdure.kernel.operation import OperationFailed, StepFailed, operation
from perdure.kernel.outcome import Failure, Outcome
from perdure.kernel.retry import Retry
from perdure.kernel.scope import ReplayDiverged

from .conftest import Bench

calls: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _forget_calls() -> None:
    calls.clear()


@operation("test.count")
async def count(op: OperationContext, input: JSON) -> JSON:
    calls[str(input)] += 1
    await asyncio.sleep(0)
    return {"done": input}


@operation("test.nest", effects=False)
async def nest(op: OperationContext, input: JSON) -> JSON:
    return [await op.step("inner", "test.count", f"{input}.{index}") for index in range(3)]


@operation("test.fail_twice")
async def fail_twice(op: OperationContext, input: JSON) -> JSON:
    calls["fail_twice"] += 1
    if op.attempt < 3:
        raise OperationFailed(Failure("not yet", "transient_infra"), retryable=True)
    return await op.step("inside", "test.count", "inside")


@operation("test.give")
def give(op: OperationContext, input: Any) -> Any:
    return {"nan": float("nan"), "tuple": (1,), "date": __import__("datetime").date(2026, 1, 1)}[input]


QUICK = Retry(max_attempts=3, initial_ms=1, max_ms=1)


async def everything(run: RunContext) -> Outcome:
    """Sequence, loop, nesting, retries, branches, readings."""
    await run.step("first", "test.count", "first")
    for _ in range(2):
        await run.step("again", "test.count", "again")
    nested = await run.step("nested", "test.nest", "n")
    await run.step("flaky", "test.fail_twice", None, retry=QUICK)
    scope = run.scope("fan")
    branches = [lambda i=i: scope.step(f"b{i}", "test.count", f"b{i}") for i in range(8)]
    fanned = await run.gather(branches, 3)
    run.emit("edge.selected", {"to": "end"})
    now = await run.now_ms()
    return Outcome("succeeded", output={"nested": nested, "fanned": fanned, "now": now, "random": await run.random()})


def test_a_run_settles_with_the_outcome_of_its_interpreter(bench: Bench) -> None:
    result = bench.run(everything)

    assert result.status == "succeeded"
    assert calls == {"first": 1, "again": 2, "n.0": 1, "n.1": 1, "n.2": 1, "fail_twice": 3, "inside": 1} | {
        f"b{i}": 1 for i in range(8)
    }


def test_step_ids_are_structural(bench: Bench) -> None:
    result = bench.run(everything)

    ids = [event.step for event in bench.events(result.run_id) if event.event == "step.completed"]
    assert ids[:6] == ["first", "again", "again@2", "nested/inner", "nested/inner@2", "nested/inner@3"]
    assert {"flaky/attempt-3/inside", "flaky", "fan/b0", "fan/b7", "+now", "+random"} <= set(ids)


def test_a_run_cut_at_every_event_goes_on_to_the_same_end(bench: Bench) -> None:
    """A finished step never runs again, wherever the owner died."""
    whole = bench.run(everything)
    events = bench.events(whole.run_id)
    assert whole.outcome is not None
    for seq in range(len(events) - 1, 2, -1):
        finished = {e.step for e in events[:seq] if e.event == "step.completed"}
        bench.cut(whole.run_id, seq)
        calls.clear()
        bench.engine = bench.new_engine()
        result = bench.execute(whole.run_id)

        assert result.status == "succeeded", seq
        assert result.outcome is not None
        assert result.outcome.output["fanned"] == whole.outcome.output["fanned"]
        if "first" in finished:
            assert calls["first"] == 0
        for index in range(8):
            assert calls[f"b{index}"] == (0 if f"fan/b{index}" in finished else 1), seq
        edges = [e for e in bench.events(whole.run_id) if e.event == "edge.selected"]
        assert len(edges) == 1, seq


def test_events_are_numbered_without_a_gap_after_resumptions(bench: Bench) -> None:
    run_id = bench.run(everything).run_id
    for seq in (20, 12, 7):
        bench.cut(run_id, seq)
        bench.engine = bench.new_engine()
        bench.execute(run_id)

    assert [event.seq for event in bench.events(run_id)] == list(range(1, len(bench.events(run_id)) + 1))


def test_an_interrupted_step_says_so_and_runs_again(bench: Bench) -> None:
    run_id = bench.run(everything).run_id
    started = next(e for e in bench.events(run_id) if e.event == "step.started")
    bench.cut(run_id, started.seq)
    bench.engine = bench.new_engine()
    bench.execute(run_id)

    names = bench.names(run_id)
    assert names.count("step.interrupted") == 1
    assert names.index("run.resumed") < names.index("step.interrupted")


def test_an_interrupted_step_can_count_as_failed(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        try:
            await run.step("send", "test.count", "send", on_interrupt="fail")
        except StepFailed as error:
            return Outcome("failed", failure=error.failure)
        return Outcome("succeeded")

    run_id = bench.run(program).run_id
    started = next(e for e in bench.events(run_id) if e.event == "step.started")
    bench.cut(run_id, started.seq)
    bench.engine = bench.new_engine()
    result = bench.execute(run_id)

    assert result.status == "failed"
    assert calls["send"] == 1
    assert result.outcome is not None
    assert result.outcome.failure is not None
    assert result.outcome.failure.code == "interrupted"


def test_attempts_are_counted_across_resumptions(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        await run.step("flaky", "test.fail_twice", None, retry=QUICK)
        return Outcome("succeeded")

    run_id = bench.run(program).run_id
    retrying = [e for e in bench.events(run_id) if e.event == "step.retrying"]
    bench.cut(run_id, retrying[1].seq)
    calls.clear()
    bench.engine = bench.new_engine()
    bench.execute(run_id)

    assert calls["fail_twice"] == 1


@pytest.mark.parametrize(("kind", "path"), [("nan", "result"), ("tuple", "result"), ("date", "result")])
def test_a_result_that_json_cannot_carry_fails_the_step(bench: Bench, kind: str, path: str) -> None:
    async def program(run: RunContext) -> Outcome:
        await run.step("bad", "test.give", kind)
        return Outcome("succeeded")

    result = bench.run(program)

    assert result.status == "failed"
    assert result.outcome is not None
    assert result.outcome.failure is not None
    assert path in result.outcome.failure.message
    assert result.outcome.failure.code == "invalid_value"


def test_a_changed_definition_is_an_error_never_a_guess(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        await run.step("first", "test.count", word)
        await run.step("second", "test.count", "x")
        return Outcome("succeeded")

    word = "one"
    run_id = bench.run(program).run_id
    bench.cut(run_id, 5)
    word = "two"
    bench.engine = bench.new_engine()
    with pytest.raises(ReplayDiverged, match="first"):
        bench.execute(run_id)

    row = bench.store.find_run(run_id)
    assert row is not None
    assert row.status == "paused"
    assert bench.execute(run_id, accept_changes=True).status == "succeeded"
    assert "run.change_accepted" in bench.names(run_id)
    assert calls["two"] == 0


def test_an_error_in_the_interpreter_pauses_the_run_where_it_is(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        await run.step("first", "test.count", "first")
        if broken:
            raise KeyError("glue")
        await run.step("second", "test.count", "second")
        return Outcome("succeeded")

    broken = True
    run_id = bench.submit(program)
    with pytest.raises(KeyError):
        bench.execute(run_id)
    broken = False

    assert bench.execute(run_id).status == "succeeded"
    assert calls == {"first": 1, "second": 1}


def test_values_over_the_limit_become_blobs_and_come_back_whole(bench: Bench) -> None:
    text = "x" * 200_000

    async def program(run: RunContext) -> Outcome:
        result = await run.step("big", "test.count", text)
        return Outcome("succeeded", output=result == {"done": text})

    run_id = bench.run(program).run_id
    assert all(len(event.body) <= 64 * 1024 for event in bench.events(run_id))
    bench.cut(run_id, 5)
    bench.engine = bench.new_engine()
    result = bench.execute(run_id)

    assert result.outcome is not None
    assert result.outcome.output is True
    assert calls[text] == 1


def test_a_log_that_cannot_be_written_stops_the_run_before_the_next_step(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = bench.store.append_all
    commits = 0

    def failing(*arguments: Any) -> Any:
        nonlocal commits
        commits += 1
        if commits >= 4:
            raise OSError(28, "No space left on device")
        return append(*arguments)

    monkeypatch.setattr(bench.store, "append_all", failing)
    run_id = bench.submit(everything)
    with pytest.raises(OSError, match="No space"):
        bench.execute(run_id)
    monkeypatch.undo()

    assert sum(calls.values()) <= 2
    assert bench.execute(run_id).status == "succeeded"
    assert calls["first"] == 1
