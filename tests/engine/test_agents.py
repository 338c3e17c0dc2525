"""Agent nodes: what a program or a script answers becomes the node's outcome, and what it left behind is told apart from it."""

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Graphs

A = "a [prompt=a%s] start -> a -> exit"


def by_program(graphs: Graphs, script: str, attributes: str = "", **options: Any) -> str:
    """Run one agent node that this shell script answers; the run's status."""
    given = {"backend": "command", "command": ["/bin/sh", "-c", script]} | options
    return graphs.run(A % (f", {attributes}" if attributes else ""), **given).status


def files(graphs: Graphs, name: str) -> Path:
    row = graphs.store.find_run(graphs.run_id)
    assert row is not None
    return Path(row.run_dir, name)


def failure(graphs: Graphs) -> Any:
    [failed] = [event for event in graphs.events("step.failed") if event.step == "a"]
    return failed.properties["failure"]


def test_a_program_that_fails_has_failed_though_its_answer_says_success(graphs: Graphs) -> None:
    assert (
        by_program(graphs, """echo '{"outcome": "succeeded"}'; echo made > out.txt; echo broken >&2; exit 3""")
        == "failed"
    )

    assert "exit code 3: broken" in failure(graphs)["message"]
    assert files(graphs, "nodes/a/response.md").read_text() == '{"outcome": "succeeded"}'
    assert files(graphs, "nodes/a/stderr.log").read_text() == "broken\n"


def test_how_the_program_ended_is_recorded(graphs: Graphs) -> None:
    by_program(graphs, "echo thinking >&2; echo fine")
    [ended] = graphs.events("agent.cli.completed")

    assert (ended.properties["failure"], ended.properties["exit_code"], ended.properties["stderr"]) == (
        None,
        0,
        "thinking\n",
    )
    assert "stdout" not in ended.properties


@pytest.mark.parametrize(
    ("said", "failure_class"),
    [
        ("HTTP 429: rate limit", "transient_infra"),
        ("insufficient credit", "budget_exhausted"),
        ("a bug", "deterministic"),
    ],
)
def test_a_failure_has_the_class_that_its_message_hints_at(graphs: Graphs, said: str, failure_class: str) -> None:
    by_program(graphs, f"echo {said!r} >&2; exit 1")

    assert failure(graphs).get("failure_class", "deterministic") == failure_class


def test_what_looks_transient_is_tried_again_and_the_count_is_kept(graphs: Graphs) -> None:
    script = "test -e once && { echo fine; exit 0; }; touch once; echo connection reset >&2; exit 1"
    body = "a [prompt=a, max_retries=2] start -> a -> exit"
    # The attractor dialect waits a fifth of a second before it tries again.
    graphs.run_id = graphs.engine.submit(
        graphs.definition(body, ending="dot", backend="command", command=["/bin/sh", "-c", script])
    )

    assert graphs.resume().status == "succeeded"
    assert graphs.checkpoint()["node_retries"] == {"a": 1}
    assert graphs.context()["internal.retry_count.a"] == 1
    retro = json.loads(files(graphs, "retro.json").read_text())
    assert retro["stats"]["total_retries"] == 1


def test_what_is_deterministic_is_not_tried_again(graphs: Graphs) -> None:
    assert by_program(graphs, "echo x >> count; exit 1", "max_retries=2") == "failed"
    assert (graphs.work / "count").read_text() == "x\n"


def test_the_settings_model_reaches_the_program_and_the_record(graphs: Graphs) -> None:
    by_program(graphs, 'echo "$PERDURE_MODEL of $PERDURE_PROVIDER"', model="m-1", provider="p-1")

    assert files(graphs, "nodes/a/response.md").read_text() == "m-1 of p-1"
    assert json.loads(files(graphs, "nodes/a/provider_used.json").read_text())["model"] == "m-1"


def test_a_value_of_the_context_is_no_code(graphs: Graphs) -> None:
    graphs.run(
        "b [shape=parallelogram, script=\"printf '%s' '$(touch x); `touch x`'\"] a [prompt=a] start -> b -> a -> exit",
        backend="command",
        command=["cat"],
    )

    assert "$(touch x)" in files(graphs, "nodes/a/response.md").read_text()
    assert list(graphs.work.iterdir()) == []


FAILED = '{"outcome": "failed", "failure_reason": "it rains"}'


def test_a_status_file_that_the_agent_leaves_is_its_verdict_and_no_part_of_the_work(graphs: Graphs) -> None:
    assert by_program(graphs, f"echo '{FAILED}' > status.json; echo fine") == "failed"

    assert failure(graphs)["message"] == "it rains"
    assert not (graphs.work / "status.json").exists()


def test_a_status_file_that_was_there_before_is_no_verdict(graphs: Graphs) -> None:
    """What an agent is to look at may not decide how it judges."""
    (graphs.work / "status.json").write_text(FAILED)

    assert by_program(graphs, "cat status.json >/dev/null; echo fine") == "succeeded"
    assert (graphs.work / "status.json").read_text() == FAILED


def test_a_status_file_of_the_project_that_the_agent_rewrites_is_a_verdict_and_stays(graphs: Graphs) -> None:
    (graphs.work / "status.json").write_text('{"outcome": "succeeded"}')

    assert by_program(graphs, f"echo '{FAILED}' > status.json; echo fine") == "failed"
    assert (graphs.work / "status.json").exists()


@pytest.mark.parametrize(
    "made", ["mkfifo status.json", "ln -s /dev/zero status.json", "mkdir status.json", "echo '[[' > status.json"]
)
def test_what_is_no_status_file_is_left_alone(graphs: Graphs, made: str) -> None:
    assert by_program(graphs, f"{made}; echo fine") == "succeeded"


def test_a_directive_of_its_own_beats_what_the_text_quotes(graphs: Graphs) -> None:
    """A verdict comes by the declared channel, not from a quotation."""
    answer = {"text": 'The file says {"outcome": "succeeded"}.', "directive": json.loads(FAILED)}
    (graphs.work / "answer").write_text(json.dumps(answer))

    assert by_program(graphs, "cat answer") == "failed"
    assert failure(graphs)["message"] == "it rains"


def test_routing_words_beside_the_text_route(graphs: Graphs) -> None:
    answer = json.dumps({"text": "No.", "preferred_next_label": "Back"})
    body = 'a [prompt=a] b [prompt=b] start -> a; a -> exit [label="On"]; a -> b [label="Back"]; b -> exit'
    (graphs.work / "answer").write_text(answer)
    graphs.run(body, backend="command", command=["cat", "answer"])

    assert graphs.path() == ["start", "a", "b"]


@pytest.mark.parametrize("printed", ['{"outcome": "great"}', '{"text": "fine", "directive": "succeeded"}'])
def test_an_unclear_verdict_never_passes(graphs: Graphs, printed: str) -> None:
    (graphs.work / "answer").write_text(printed)

    assert by_program(graphs, "cat answer") == "failed"


@pytest.mark.parametrize("value", ['"\\ud800"', "NaN", "9" * 3000, "[" * 300 + "]" * 300])
def test_a_value_that_no_log_can_hold_fails_the_node_and_not_the_run(graphs: Graphs, value: str) -> None:
    (graphs.work / "answer").write_text(f'{{"outcome": "succeeded", "context_updates": {{"x": {value}}}}}')
    body = 'a [prompt=a] b [prompt=b] start -> a; a -> exit; a -> b [condition="outcome=failed"]; b -> exit'
    graphs.run(body, backend="command", command=["/bin/sh", "-c", "test $PERDURE_NODE_ID = b || cat answer"])

    assert graphs.path() == ["start", "a", "b"]


def test_steering_is_a_part_of_the_prompt_that_is_recorded(graphs: Graphs) -> None:
    heard = "until grep -q steer_reques[t]ed ../runs/*/progress.jsonl; do sleep 0.05; done"
    body = f'b [shape=parallelogram, script="{heard}"] a [prompt=a] start -> b -> a -> exit'
    graphs.run_id = graphs.engine.submit(graphs.definition(body, backend="command", command=["cat"]))
    row = graphs.store.find_run(graphs.run_id)
    assert row is not None
    graphs.store.request(row.no, "steer", '{"text": "Be brief."}', 1)

    assert graphs.resume().status == "succeeded"
    assert files(graphs, "nodes/a/prompt.md").read_text().endswith("Be brief.")
    assert files(graphs, "nodes/a/response.md").read_text().endswith("Be brief.")
