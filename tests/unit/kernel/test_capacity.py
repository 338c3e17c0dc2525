"""Slots of steps on the engine: who waits, what the log says of it, and how it ends."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from perdure.base.clock import SystemClock
from perdure.base.errors import EnvironmentFault
from perdure.base.jsonvalue import JSON
from perdure.disk import process
from perdure.kernel.capacity.limits import Limits
from perdure.kernel.capacity.slots import COURTESY_MS, Capacity, Wish
from perdure.kernel.capacity.tags import BadTag
from perdure.kernel.context import OperationContext, RunContext
from perdure.kernel.engine import Engine
from perdure.kernel.interviewer import PendingQuestion
from perdure.kernel.operation import StepFailed, operation
from perdure.kernel.outcome import Outcome
from perdure.kernel.question import Answer, Option, Question
from perdure.store.records import SlotChange, SlotRequest

from .conftest import Bench

GO = Question("Go?", "multiple_choice", [Option("y", "Yes")])


class Agents:
    """What the agents of a test do: each says that it works, and waits until it is told to end, unless all are free to go."""

    def __init__(self) -> None:
        self.at_work: list[str] = []
        self.most = 0
        self.order: list[str] = []
        self.changed = asyncio.Condition()
        self.is_free = False
        self.may_end: set[str] = set()

    async def work(self, name: str) -> None:
        async with self.changed:
            self.at_work.append(name)
            self.order.append(name)
            self.most = max(self.most, len(self.at_work))
            self.changed.notify_all()
            try:
                await self.changed.wait_for(lambda: self.is_free or name in self.may_end)
            finally:
                self.at_work.remove(name)
                self.changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self.changed, asyncio.timeout(10):
            await self.changed.wait_for(condition)

    async def end(self, name: str) -> None:
        async with self.changed:
            self.may_end.add(name)
            self.changed.notify_all()

    async def end_all(self) -> None:
        async with self.changed:
            self.is_free = True
            self.changed.notify_all()


agents = Agents()


@pytest.fixture(autouse=True)
def _new_agents() -> None:
    global agents
    agents = Agents()


@operation("test.agent_at_work")
async def agent(op: OperationContext, input: dict[str, Any]) -> JSON:
    async with op.slot(input.get("backend", "codex"), tags=input.get("tags", ()), remaining=input.get("remaining", 0)):
        await agents.work(input["name"])
    return str(input["name"])


@operation("test.nested")
async def nested(op: OperationContext, input: dict[str, Any]) -> JSON:
    async with op.slot("codex", tags=["screen"]):
        return await op.step("inner", "test.agent_at_work", input)


@operation("test.agent_that_asks")
async def agent_that_asks(op: OperationContext, input: dict[str, Any]) -> JSON:
    async with op.slot("codex", tags=input.get("tags", ())):
        answer = await op.step("question", "test.asked_inside", None)
        await agents.work(input["name"])
    return answer


@operation("test.asked_inside")
async def asked_inside(op: OperationContext, _input: JSON) -> JSON:
    return list((await op.ask("may", GO)).selected)


def branches(*inputs: dict[str, Any]) -> Callable[[RunContext], Any]:
    """A program with one agent a branch."""

    async def program(run: RunContext) -> Outcome:
        async def branch(given: dict[str, Any]) -> JSON:
            return await run.scope(given["name"]).step("agent", "test.agent_at_work", given)

        return Outcome("succeeded", output=await run.gather([partial(branch, each) for each in inputs]))

    return program


def limited(bench: Bench, park: bool = False, **backends: int) -> Engine:
    bench.engine = bench.new_engine(limits=Limits(backends), park=park)
    return bench.engine


def waits(bench: Bench, run_id: str) -> list[Any]:
    return [event for event in bench.events(run_id) if event.event == "agent.slot.waiting"]


async def heard(bench: Bench, count: int, name: str = "agent.slot.waiting") -> None:
    """Return when the log has so many events of that name."""
    async with asyncio.timeout(10):
        while sum(event.event == name for event in bench.heard.events) < count:
            await asyncio.sleep(0.005)


def test_without_limits_and_tags_nothing_is_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(bench, openai=1)
    monkeypatch.setattr(bench.store, "slots", None)

    async def go() -> None:
        await agents.end_all()
        await bench.engine.execute(run_id)

    run_id = bench.submit(branches({"name": "a"}, {"name": "b"}))
    asyncio.run(go())
    assert "agent.slot.waiting" not in bench.names(run_id)
    assert agents.most >= 1


def test_no_more_agents_work_than_the_limit_and_all_end(bench: Bench) -> None:
    limited(bench, codex=2)
    run_id = bench.submit(branches(*({"name": f"n{n}"} for n in range(6))))

    async def go() -> Any:
        run = asyncio.ensure_future(bench.engine.execute(run_id))
        await agents.until(lambda: len(agents.at_work) == 2)
        await heard(bench, 4)
        await agents.end_all()
        return await run

    assert asyncio.run(go()).status == "succeeded"
    assert agents.most == 2
    assert bench.store.slots.rows() == []
    assert len(waits(bench, run_id)) == 4
    assert bench.names(run_id).count("agent.slot.taken") == 4


def test_the_log_says_why_a_step_waits(bench: Bench) -> None:
    limited(bench, codex=1)
    run_id = bench.submit(branches({"name": "a"}, {"name": "b"}))

    async def go() -> None:
        run = asyncio.ensure_future(bench.engine.execute(run_id))
        await heard(bench, 1)
        await agents.end_all()
        await run

    asyncio.run(go())
    [wait] = waits(bench, run_id)
    assert (wait.step, wait.properties) == (
        "b/agent",
        {
            "backend": "codex",
            "tags": [],
            "limit": 1,
            "text": "Waiting for a free codex slot: the only one is in use on this machine (limits.json).",
        },
    )


def test_the_longest_way_of_a_run_goes_first(bench: Bench) -> None:
    limited(bench, codex=1)
    run_id = bench.submit(
        branches(
            {"name": "first"}, {"name": "short", "remaining": 1}, {"name": "long", "remaining": 9}, {"name": "other"}
        )
    )

    async def go() -> None:
        run = asyncio.ensure_future(bench.engine.execute(run_id))
        await heard(bench, 3)
        await agents.end_all()
        await run

    asyncio.run(go())
    assert agents.order == ["first", "long", "short", "other"]


def test_whoever_waits_for_a_tag_holds_no_slot(bench: Bench) -> None:
    limited(bench, codex=2)
    run_id = bench.submit(
        branches({"name": "a", "tags": ["screen"]}, {"name": "b", "tags": ["screen:left"]}, {"name": "c"})
    )

    async def go() -> None:
        run = asyncio.ensure_future(bench.engine.execute(run_id))
        await agents.until(lambda: sorted(agents.at_work) == ["a", "c"])
        await agents.end("a")
        await agents.until(lambda: sorted(agents.at_work) == ["b", "c"])
        await agents.end_all()
        await run

    asyncio.run(go())
    [wait] = waits(bench, run_id)
    assert wait.properties["text"] == (
        f"Waiting for screen:left: step a/agent of run {run_id} uses screen on this machine."
    )


def test_tags_exclude_without_any_limit(bench: Bench) -> None:
    run_id = bench.submit(branches(*({"name": f"n{n}", "tags": ["screen"]} for n in range(3))))

    async def go() -> None:
        run = asyncio.ensure_future(bench.engine.execute(run_id))
        await heard(bench, 2)
        await agents.end_all()
        await run

    asyncio.run(go())
    assert agents.most == 1


def test_an_agent_inside_an_agent_works_in_its_slot_and_with_its_tags(bench: Bench) -> None:
    limited(bench, codex=1)

    async def program(run: RunContext) -> Outcome:
        return Outcome(
            "succeeded", output=await run.step("outer", "test.nested", {"name": "a", "tags": ["screen:left"]})
        )

    run_id = bench.submit(program)

    async def go() -> Any:
        await agents.end_all()
        async with asyncio.timeout(10):
            return await bench.engine.execute(run_id)

    assert asyncio.run(go()).status == "succeeded"
    assert bench.store.slots.rows() == []


def test_a_slot_is_let_go_when_its_agent_fails(bench: Bench) -> None:
    limited(bench, codex=1)

    @operation("test.failing")
    async def failing(op: OperationContext, input: JSON) -> JSON:
        async with op.slot("codex"):
            raise ValueError("broken")

    async def program(run: RunContext) -> Outcome:
        with pytest.raises(StepFailed, match="broken"):
            await run.step("a", "test.failing")
        return Outcome("succeeded")

    assert bench.run(program).status == "succeeded"
    assert bench.store.slots.rows() == []


def test_a_tag_that_is_none_fails_the_step(bench: Bench) -> None:
    async def program(run: RunContext) -> Outcome:
        with pytest.raises(StepFailed, match="no mutex tag"):
            await run.step("a", "test.agent_at_work", {"name": "a", "tags": ["not a tag"]})
        return Outcome("succeeded")

    assert bench.run(program).status == "succeeded"
    assert BadTag.code == "bad_mutex"


@pytest.mark.parametrize("asked", ["cancel", "pause"])
def test_a_run_that_waits_for_a_slot_stops_at_once(bench: Bench, asked: str) -> None:
    limited(bench, codex=1)
    waiter = bench.submit(branches({"name": "b"}))
    row = bench.store.find_run(waiter)
    assert row is not None

    async def go() -> Any:
        held = await bench.engine.capacity.acquire(Wish("codex", "R9", "s"))
        waiting = asyncio.ensure_future(bench.engine.execute(waiter))
        await heard_by_store(bench, waiter)
        # As another process would ask.
        bench.store.request(row.no, asked, "{}", 1)
        bench.engine.others._marker = -1
        async with asyncio.timeout(5):
            result = await waiting
        assert [each.id for each in bench.store.slots.rows()] == [held]
        bench.engine.capacity.release(held)
        return result

    assert asyncio.run(go()).status == {"cancel": "cancelled", "pause": "paused"}[asked]
    assert agents.order == []
    assert bench.store.slots.rows() == []


async def heard_by_store(bench: Bench, run_id: str) -> None:
    async with asyncio.timeout(10):
        while not waits(bench, run_id):
            await asyncio.sleep(0.005)


def test_a_run_that_is_to_pause_starts_no_waiting_agent(bench: Bench) -> None:
    limited(bench, codex=1)
    run_id = bench.submit(branches({"name": "a"}, {"name": "b"}))
    row = bench.store.find_run(run_id)
    assert row is not None

    async def go() -> Any:
        run = asyncio.ensure_future(bench.engine.execute(run_id))
        await heard(bench, 1)
        bench.store.request(row.no, "pause", "{}", 1)
        bench.engine.others._marker = -1
        await heard(bench, 1, "run.pause_requested")
        await agents.end_all()
        async with asyncio.timeout(10):
            return await run

    assert asyncio.run(go()).status == "paused"
    assert agents.order == ["a"]

    async def resume() -> Any:
        return await bench.engine.execute(run_id)

    assert asyncio.run(resume()).status == "succeeded"
    assert agents.order == ["a", "b"]


def test_a_run_does_not_park_while_a_branch_waits_for_a_slot(bench: Bench) -> None:
    limited(bench, park=True, codex=1)

    async def asking(run: RunContext) -> Outcome:
        async def ask() -> JSON:
            return list((await run.scope("q").ask("gate", GO)).selected)

        async def work() -> JSON:
            return await run.scope("w").step("agent", "test.agent_at_work", {"name": "b"})

        return Outcome("succeeded", output=await run.gather([ask, work]))

    run_id = bench.submit(asking)

    async def go() -> Any:
        held = await bench.engine.capacity.acquire(Wish("codex", "R9", "s"))
        waiting = asyncio.ensure_future(bench.engine.execute(run_id))
        await heard_by_store(bench, run_id)
        await heard_waiting(bench, run_id)
        await agents.end_all()
        bench.engine.capacity.release(held)
        # The agent is done before the run parks for the question.
        return await waiting

    assert asyncio.run(go()).status == "waiting"
    assert agents.order == ["b"]
    assert bench.store.slots.rows() == []
    [question] = bench.store.open_questions()
    assert bench.engine.answer(question.question_id, Answer("selected", ["y"]))
    bench.engine = bench.new_engine(limits=Limits({"codex": 1}))
    assert bench.execute(run_id).outcome == Outcome("succeeded", output=[["y"], "b"])


class Person:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.is_present = True
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def ask(self, _pending: PendingQuestion) -> Answer:
        self.was_asked.set()
        await self.may_answer.wait()
        return Answer("selected", ["y"], by="person")


async def asking_beside_another(run: RunContext, **asks: Any) -> Outcome:
    """An agent that asks, and one that comes when it has asked."""

    async def ask() -> JSON:
        return await run.scope("a").step("agent", "test.agent_that_asks", {"name": "a", **asks})

    async def work() -> JSON:
        await run.local.was_asked.wait()
        return await run.scope("b").step("agent", "test.agent_at_work", {"name": "b"})

    return Outcome("succeeded", output=await run.gather([ask, work]))


def test_an_agent_that_waits_for_a_person_lets_another_work_in_its_slot_and_takes_one_again(bench: Bench) -> None:
    limited(bench, codex=1)

    async def go() -> Any:
        person = Person()

        async def program(run: RunContext) -> Outcome:
            run.local = person
            return await asking_beside_another(run)

        run_id = bench.submit(program)
        running = asyncio.ensure_future(bench.engine.execute(run_id, interviewers=[person]))
        await agents.until(lambda: agents.at_work == ["b"])
        person.may_answer.set()
        # It has its answer, and waits until the other one ends.
        await heard(bench, 1, "interview.completed")
        await heard(bench, 1)
        assert agents.at_work == ["b"]
        await agents.end("b")
        await agents.until(lambda: agents.at_work == ["a"])
        assert len(bench.store.slots.rows()) == 1
        await agents.end("a")
        return await running

    result = asyncio.run(go())
    assert result.outcome.output == [["y"], "b"]
    assert agents.most == 1
    assert bench.store.slots.rows() == []


def test_an_agent_with_a_mutex_tag_keeps_what_it_holds_while_it_asks(bench: Bench) -> None:
    limited(bench, codex=1)

    async def go() -> Any:
        person = Person()

        async def program(run: RunContext) -> Outcome:
            run.local = person
            return await asking_beside_another(run, tags=["screen"])

        run_id = bench.submit(program)
        running = asyncio.ensure_future(bench.engine.execute(run_id, interviewers=[person]))
        await heard(bench, 1)
        assert agents.at_work == []
        await agents.end_all()
        person.may_answer.set()
        return await running

    assert asyncio.run(go()).status == "succeeded"
    assert agents.order == ["a", "b"]


def test_a_run_that_parks_while_an_agent_asks_holds_no_slot_and_takes_one_when_it_goes_on(bench: Bench) -> None:
    limited(bench, park=True, codex=1)

    async def program(run: RunContext) -> Outcome:
        return Outcome("succeeded", output=await run.step("agent", "test.agent_that_asks", {"name": "a"}))

    run_id = bench.submit(program)
    assert bench.execute(run_id).status == "waiting"
    assert bench.store.slots.rows() == []
    [question] = bench.store.open_questions()
    assert bench.engine.answer(question.question_id, Answer("selected", ["y"]))
    agents.may_end.add("a")
    assert bench.execute(run_id).status == "succeeded"
    assert agents.order == ["a"]


async def heard_waiting(bench: Bench, run_id: str) -> None:
    async with asyncio.timeout(10):
        while "run.waiting" not in bench.names(run_id):
            await asyncio.sleep(0.005)


# The slots themselves, with other processes


def other_owner(bench: Bench, owner: str, *, taken: bool) -> int:
    """A row of another process."""
    asked = bench.store.slots.change(
        lambda rows: SlotChange(taken=[(rows[-1].id, 1)] if taken else ()),
        ask=SlotRequest("codex", owner, "R9", "s", "", 0, 1),
    ).asked
    assert asked is not None
    return asked


def identity(**more: object) -> str:
    import msgspec

    return msgspec.json.encode(msgspec.structs.replace(process.current(), **more)).decode()


class SlowClock(SystemClock):
    """A clock whose monotonic time a test moves."""

    ahead = 0.0

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.ahead


def acquire(capacity: Capacity) -> "asyncio.Task[int]":
    return asyncio.get_running_loop().create_task(capacity.acquire(Wish("codex", "R1", "a")))


@pytest.mark.parametrize("gone", [{"pid": 2**22 + 1}, {"started": 1}, {"boot_id": "an earlier boot"}])
def test_the_slot_of_a_process_that_is_gone_is_free(bench: Bench, gone: dict[str, object]) -> None:
    other_owner(bench, identity(**gone), taken=True)

    async def go() -> int:
        async with asyncio.timeout(1):
            return await acquire(Capacity(bench.store, Limits({"codex": 1}), clock=SystemClock()))

    slot_id = asyncio.run(go())
    assert [row.id for row in bench.store.slots.rows()] == [slot_id]


@pytest.mark.parametrize("kind", ["unreadable", "of another host"])
def test_the_slot_of_a_process_that_cannot_be_looked_at_stays_taken(bench: Bench, kind: str) -> None:
    owner = '{"host": 1}' if kind == "unreadable" else identity(host="elsewhere")
    held = other_owner(bench, owner, taken=True)

    async def go() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await acquire(Capacity(bench.store, Limits({"codex": 1}), clock=SystemClock()))

    asyncio.run(go())
    assert [row.id for row in bench.store.slots.rows()] == [held]


def test_a_free_slot_is_left_for_a_while_to_a_process_whose_turn_it_is_and_then_no_more(bench: Bench) -> None:
    """It may be stopped, or hang: it keeps its place, and the others go on."""
    hanging = other_owner(bench, identity(pid=1, started=process.started_at(1)), taken=False)
    clock = SlowClock()

    async def go() -> None:
        capacity = Capacity(bench.store, Limits({"codex": 1}), clock=clock)
        mine = acquire(capacity)
        await asyncio.sleep(0.3)
        assert not mine.done()
        clock.ahead = COURTESY_MS
        async with asyncio.timeout(2):
            capacity.release(await mine)

    asyncio.run(go())
    assert [row.id for row in bench.store.slots.rows()] == [hanging]


def test_a_slot_that_could_not_be_let_go_is_let_go_later(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        capacity = Capacity(bench.store, Limits({"codex": 1}), clock=SystemClock())
        slot_id = await acquire(capacity)

        def full(*_given: object, **_more: object) -> SlotChange:
            raise EnvironmentFault("The disk is full.")

        with monkeypatch.context() as patch:
            patch.setattr(bench.store.slots, "change", full)
            capacity.release(slot_id)
        async with asyncio.timeout(2):
            capacity.release(await acquire(capacity))

    asyncio.run(go())
    assert bench.store.slots.rows() == []


def test_cancelling_whoever_was_just_given_a_slot_gives_it_to_the_next(bench: Bench) -> None:
    async def go() -> None:
        capacity = Capacity(bench.store, Limits({"codex": 1}), clock=SystemClock())
        first = await acquire(capacity)
        second, third = acquire(capacity), acquire(capacity)
        await asyncio.sleep(0)
        capacity.release(first)
        second.cancel()
        async with asyncio.timeout(2):
            capacity.release(await third)
        assert second.cancelled()

    asyncio.run(go())
    assert bench.store.slots.rows() == []


def test_one_capacity_serves_one_event_loop_after_the_other(bench: Bench) -> None:
    capacity = Capacity(bench.store, Limits({"codex": 1}), clock=SystemClock())

    async def cut() -> None:
        held = await acquire(capacity)
        waiting = acquire(capacity)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        capacity.release(held)

    asyncio.run(cut())
    held = other_owner(bench, identity(pid=1, started=process.started_at(1)), taken=True)

    async def go() -> None:
        waiting = acquire(capacity)
        await asyncio.sleep(0)
        bench.store.slots.change(lambda _rows: SlotChange(), free=[held])
        async with asyncio.timeout(2):
            capacity.release(await waiting)

    asyncio.run(go())


@pytest.mark.timing
def test_a_free_slot_costs_little(bench: Bench) -> None:
    """The best of many short turns, as the machine may have other work."""
    import time

    async def go() -> float:
        capacity = Capacity(bench.store, Limits({"codex": 9}), clock=SystemClock())
        begun = time.perf_counter()
        for _ in range(50):
            capacity.release(await capacity.acquire(Wish("codex", "R1", "a")))
        return (time.perf_counter() - begun) / 100

    assert min(asyncio.run(go()) for _ in range(20)) < 200e-6
