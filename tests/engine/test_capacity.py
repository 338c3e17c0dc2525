"""Agents within the limits of a machine: branches of a graph, and many processes at once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.graph.distance import remaining_path
from perdure.graph.model import Edge, Graph, Node
from perdure.kernel.capacity.limits import Limits
from perdure.store.sqlite import SqliteStore

from .conftest import Graphs

AGENT = """echo "+ $PERDURE_NODE_ID" >> log; sleep 0.05; echo "- $PERDURE_NODE_ID" >> log; echo done"""


def most_at_once(log: str) -> int:
    """How many were at work at one time: each line begins with a sign for coming or going."""
    now = most = 0
    for line in log.splitlines():
        now += 1 if line[0] == "+" else -1
        most = max(most, now)
    return most


def fork(count: int, attributes: str = "") -> str:
    names = [f"n{number}" for number in range(count)]
    nodes = " ".join(f'{name} [prompt="x"{attributes}] fork -> {name} {name} -> join' for name in names)
    return f"fork [shape=component, max_parallel={count}] join [shape=tripleoctagon] {nodes} start -> fork join -> exit"


def test_no_more_branches_have_their_program_at_work_than_the_limit(graphs: Graphs) -> None:
    graphs.engine = graphs.new_engine(Limits({"command": 2}))
    result = graphs.run(fork(6), backend="command", command=["/bin/sh", "-c", AGENT])
    log = (graphs.work / "log").read_text()

    assert result.status == "succeeded"
    assert len(log.splitlines()) == 12
    assert most_at_once(log) == 2
    assert len(graphs.events("agent.slot.waiting")) == len(graphs.events("agent.slot.taken")) == 4
    assert graphs.store.slots.rows() == []


def test_branches_with_one_mutex_tag_follow_each_other(graphs: Graphs) -> None:
    graphs.run(fork(3, ', mutex="use-computer"'), backend="command", command=["/bin/sh", "-c", AGENT])

    assert most_at_once((graphs.work / "log").read_text()) == 1


def test_the_time_of_waiting_is_no_part_of_a_nodes_time_limit(graphs: Graphs) -> None:
    """Each works for longer than half of its limit, so the last would be late if it counted."""
    graphs.engine = graphs.new_engine(Limits({"command": 1}))
    result = graphs.run(
        fork(3, ', timeout="600ms"'), backend="command", command=["/bin/sh", "-c", "sleep 0.35; echo done"]
    )

    assert result.status == "succeeded"
    assert len(graphs.events("agent.slot.waiting")) == 2


def test_a_backend_without_a_limit_leaves_no_trace(graphs: Graphs) -> None:
    graphs.engine = graphs.new_engine(Limits({"command": 1}))
    assert graphs.run(fork(3)).status == "succeeded"

    assert graphs.events("agent.slot.waiting") == []
    assert graphs.store._db.execute("select count(*) from sqlite_sequence where name = 'slots'").get == 0


# How long the way is


def graph_of(count: int, edges: list[tuple[int, int]]) -> Graph:
    nodes = {f"n{number}": Node(id=f"n{number}") for number in range(count)}
    nodes["n0"].attrs["shape"] = "Mdiamond"
    return Graph(nodes=nodes, edges=[Edge(source=f"n{a}", target=f"n{b}") for a, b in edges])


def test_the_longest_way_counts_and_a_loop_counts_once() -> None:
    found = remaining_path(graph_of(5, [(0, 1), (1, 2), (2, 1), (2, 3), (1, 3), (0, 4)]))

    assert found == {"n0": 3, "n1": 2, "n2": 1, "n3": 0, "n4": 0}


def test_a_very_long_graph_is_measured_too() -> None:
    count = 20_000

    assert remaining_path(graph_of(count, [(n, n + 1) for n in range(count - 1)]))["n0"] == count - 1


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_without_loops_each_node_is_one_further_than_the_farthest_after_it(
    count: int, edges: list[tuple[int, int]]
) -> None:
    forward = sorted({(a, b) for a, b in edges if a < b < count})
    found = remaining_path(graph_of(count, forward))
    after = {n: [b for a, b in forward if a == n] for n in range(count)}

    assert all(found[f"n{n}"] == max((found[f"n{b}"] + 1 for b in after[n]), default=0) for n in range(count))


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30))
def test_loops_of_any_kind_end(count: int, edges: list[tuple[int, int]]) -> None:
    found = remaining_path(graph_of(count, [(a, b) for a, b in edges if a < count and b < count]))

    assert all(0 <= length < count for length in found.values())


# Many processes

_WORKER = """
import asyncio, os, sys
from perdure.base.clock import SystemClock
from perdure.kernel.capacity.limits import Limits
from perdure.kernel.capacity.slots import Capacity, Wish
from perdure.store.sqlite import SqliteStore

path, log, name = sys.argv[1:]
handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

async def main():
    capacity = Capacity(SqliteStore.open(path, durability="normal"), Limits({"codex": 3}), clock=SystemClock())
    if name == "hangs":
        await capacity.acquire(Wish("codex", name, "s"))
        print("held", flush=True)
        await asyncio.Event().wait()
    async def work(number):
        slot_id = await capacity.acquire(Wish("codex", name, str(number)))
        os.write(handle, f"+ {name} {number}\\n".encode())
        await asyncio.sleep(0.01)  # its work
        os.write(handle, f"- {name} {number}\\n".encode())
        capacity.release(slot_id)
    await asyncio.gather(*map(work, range(4)))

asyncio.run(main())
"""


def start(folder: Path, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(folder / "state.sqlite"), str(folder / "log"), name],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_eight_processes_keep_one_limit_and_all_are_served_though_one_dies_with_its_slot(tmp_path: Path) -> None:
    SqliteStore.open(str(tmp_path / "state.sqlite"), durability="normal").close()
    victims = [start(tmp_path, "hangs") for _ in range(3)]
    for victim in victims:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "held\n"
    workers = [start(tmp_path, f"w{number}") for number in range(8)]
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)
    for each in [*victims, *workers]:
        each.communicate(timeout=40)

    log = (tmp_path / "log").read_text()
    assert [worker.returncode for worker in workers] == [0] * 8
    assert len(log.splitlines()) == 8 * 4 * 2
    assert most_at_once(log) == 3
    store = SqliteStore.open(str(tmp_path / "state.sqlite"))
    assert store.slots.rows() == []
    store.close()


def test_a_dead_process_that_nobody_has_waited_for_yet_holds_nothing(tmp_path: Path) -> None:
    """A zombie has a pid, and does nothing any more."""
    SqliteStore.open(str(tmp_path / "state.sqlite"), durability="normal").close()
    victims = [start(tmp_path, "hangs") for _ in range(3)]
    for victim in victims:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "held\n"
        os.kill(victim.pid, signal.SIGKILL)
    worker = start(tmp_path, "w")
    worker.communicate(timeout=40)

    assert worker.returncode == 0
    for victim in victims:
        victim.communicate()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
def test_a_stopped_process_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    """It was stopped while it waited, foremost in the line (Ctrl-Z in a shell does that)."""
    SqliteStore.open(str(tmp_path / "state.sqlite"), durability="normal").close()
    holders = [start(tmp_path, "hangs") for _ in range(4)]
    store = SqliteStore.open(str(tmp_path / "state.sqlite"))
    while len(rows := store.slots.rows()) < 4 or sum(row.taken_at is not None for row in rows) < 3:
        assert all(holder.poll() is None for holder in holders)
    store.close()
    [pid] = [json.loads(row.owner)["pid"] for row in rows if row.taken_at is None]
    os.kill(pid, signal.SIGSTOP)
    next(holder for holder in holders if holder.pid != pid).kill()
    worker = start(tmp_path, "w")
    worker.communicate(timeout=40)
    for holder in holders:
        holder.kill()
        holder.communicate()

    assert worker.returncode == 0
