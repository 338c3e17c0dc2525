"""What nodes do: commands, agents, gates, branches, timers, child workflows, dry runs."""

import json
import os
from pathlib import Path

import pytest

from .conftest import Graphs


def test_a_command_gives_its_output_and_its_failure_says_why(graphs: Graphs) -> None:
    result = graphs.run('a [shape=parallelogram, script="echo out; echo why >&2; exit 7"] start -> a -> exit')
    assert result.status == "failed"
    assert "exit code 7" in graphs.failure(result)
    assert "why" in graphs.failure(result)
    assert graphs.context()["command.output"] == "out"
    assert graphs.context()["command.stderr"] == "why"


def test_a_python_script_runs_as_python(graphs: Graphs) -> None:
    graphs.run('a [shape=parallelogram, language=python, script="print(6 * 7)"] start -> a -> exit')
    assert graphs.context()["command.output"] == "42"


@pytest.mark.parametrize("ending", ["API_KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL"])
def test_a_command_does_not_see_the_callers_secrets(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setenv(f"SOME_{ending}", "hush-4711")
    monkeypatch.setenv("SOME_WORD", "hello")
    body = f'a [shape=parallelogram, script="echo $SOME_WORD [$SOME_{ending}]"] start -> a -> exit'
    graphs.run(body)
    assert graphs.context()["command.output"] == "hello []"
    graphs.run(body, pass_env=[f"SOME_{ending}"])
    assert graphs.context()["command.output"] == "hello [hush-4711]"


def test_a_command_that_takes_too_long_may_be_tried_again(graphs: Graphs) -> None:
    body = 'a [shape=parallelogram, script="echo x >> n; sleep 60", timeout=300ms, max_retries=1, retry_policy=""] start -> a -> exit'
    result = graphs.run(body.replace("max_retries=1, ", "max_retries=0, "))
    assert result.status == "failed"
    assert "longer than" in graphs.failure(result)


def test_a_retry_is_for_what_asks_for_it_and_its_attempts_are_recorded(graphs: Graphs) -> None:
    graphs.answers["a"] = [[{"fail": "busy", "retryable": True}, "done"]]
    result = graphs.run("a [prompt=a, retry_policy=aggressive] start -> a -> exit")
    assert result.status == "succeeded"
    [retrying] = graphs.events("step.retrying")
    assert (retrying.properties["attempt"], retrying.properties["max_attempts"]) == (2, 5)
    graphs.answers["a"] = [[{"fail": "wrong"}, "done"]]
    assert graphs.run("a [prompt=a, retry_policy=aggressive] start -> a -> exit").status == "failed"


@pytest.mark.parametrize(
    ("flag", "status", "word"),
    [("allow_partial", "partially_succeeded", "allow_partial"), ("auto_status", "succeeded", "auto_status")],
)
def test_a_failure_becomes_a_success_only_by_a_declared_rule_and_says_so(
    graphs: Graphs, flag: str, status: str, word: str
) -> None:
    graphs.answers["a"] = {"fail": "busy", "retryable": True}
    assert graphs.run(f"a [prompt=a, {flag}=true] start -> a -> exit").status == status
    [ended] = [e for e in graphs.events("step.completed") if e.step == "a"]
    assert word in ended.properties["result"]["notes"]  # type: ignore[index,call-overload,operator]


def test_an_agent_is_told_what_happened_before(graphs: Graphs) -> None:
    graphs.answers["a"] = {"text": "a plan", "directive": {"context_updates": {"colour": "blue"}}}
    graphs.run(
        'a [prompt="Plan $goal"] b [prompt="Do {{ goal }} with {{ inputs.tool }}"] start -> a -> b -> exit',
        inputs={"tool": "a hammer"},
    )
    first, second = [str(event.properties["text"]) for event in graphs.events("step.prompt")]

    assert first == "Plan the goal"
    assert "Do the goal with a hammer" in second
    assert "a (a): succeeded" in second
    assert "colour: blue" in second


@pytest.mark.parametrize(
    ("fidelity", "told"), [("full", False), ("truncate", False), ("compact", True), ("summary:low", True)]
)
def test_fidelity_decides_how_much_is_told(graphs: Graphs, fidelity: str, told: bool) -> None:
    graphs.run(f'a [prompt=a] b [prompt=b, fidelity="{fidelity}"] start -> a -> b -> exit')
    assert ("Completed steps" in str(graphs.events("step.prompt")[1].properties["text"])) is told


def test_a_goal_is_never_taken_for_a_template(graphs: Graphs) -> None:
    graphs.run('a [prompt="$goal and {{ goal }}"] start -> a -> exit', goal="{{ 6 * 7 }} $(touch x)")
    assert graphs.events("step.prompt")[0].properties["text"] == "{{ 6 * 7 }} $(touch x) and {{ 6 * 7 }} $(touch x)"


def test_a_name_without_a_value_is_an_error_not_a_text(graphs: Graphs) -> None:
    result = graphs.run('a [prompt="{{ inputs.nothing }}"] start -> a -> exit')
    assert result.status == "failed"


def test_a_value_in_a_script_is_a_value_not_a_command(graphs: Graphs) -> None:
    graphs.run(
        'a [shape=parallelogram, script="printf %s \\"$PERDURE_GOAL\\""] start -> a -> exit', goal="$(touch pwned); '\""
    )
    assert graphs.context()["command.output"] == "$(touch pwned); '\""
    assert not (graphs.work / "pwned").exists()


def test_a_program_can_be_an_agent_and_its_exit_code_counts(graphs: Graphs) -> None:
    program = graphs.folder / "agent.sh"
    program.write_text('cat > got; echo thinking; echo \'{"outcome": "success", "context_updates": {"k": 1}}\'')
    options = {"backend": "command", "command": ["sh", str(program)]}
    assert graphs.run('a [prompt="Hello $goal"] start -> a -> exit', **options).status == "succeeded"
    assert (graphs.work / "got").read_text() == "Hello the goal"
    assert graphs.context()["k"] == 1
    program.write_text("touch result; exit 3")
    result = graphs.run("a [prompt=a] start -> a -> exit", **options)
    assert result.status == "failed"
    assert "exit code 3" in graphs.failure(result)


def test_a_gate_takes_the_edge_that_was_chosen(graphs: Graphs) -> None:
    body = 'g [shape=hexagon, label="Ok?"] a [prompt=a] start -> g; g -> a [label="[Y] Yes"]; g -> exit [label="N) No"]; a -> exit'
    assert graphs.run(body).status == "waiting"
    graphs.answer("N")
    assert graphs.resume().status == "succeeded"
    assert graphs.path() == ["start", "g"]
    assert (graphs.context()["human.gate.selected"], graphs.context()["human.gate.label"]) == ("N", "N) No")


def test_a_gates_silence_takes_the_declared_choice_and_says_that_nobody_answered(graphs: Graphs) -> None:
    body = 'g [shape=hexagon, timeout=20ms, human.default_choice="exit"] a [prompt=a] start -> g; g -> a [label="[Y] Yes"]; g -> exit [label="[N] No"]; a -> exit'
    graphs.engine.park = False
    assert graphs.run(body).status == "succeeded"
    assert graphs.path() == ["start", "g"]
    assert len(graphs.events("interview.timeout")) == 1


def test_a_gates_silence_without_a_choice_is_a_failure(graphs: Graphs) -> None:
    graphs.engine.park = False
    result = graphs.run('g [shape=hexagon, timeout=20ms] start -> g; g -> exit [label="[Y] Yes"]')
    assert result.status == "failed"
    assert "Nobody answered" in graphs.failure(result)


def test_branches_have_contexts_of_their_own_and_all_their_outputs_arrive(graphs: Graphs) -> None:
    body = (
        "p [shape=component] j [shape=tripleoctagon] "
        'a [shape=parallelogram, script="echo from a"] b [shape=parallelogram, script="sleep 0.1; echo from b"] c [prompt=c] '
        "start -> p; p -> b -> j; p -> a -> j; p -> c -> j; j -> exit"
    )
    assert graphs.run(body).status == "succeeded"
    assert graphs.context()["parallel.outputs"] == ["from b", "from a", "done"]
    assert graphs.context()["parallel.branch_count"] == 3
    assert [each["id"] for each in graphs.context()["parallel.results"]] == ["b", "a", "c"]
    assert graphs.context()["parallel.fan_in.best_id"] == "a"


def test_a_failed_branch_makes_a_partial_success_and_all_failed_a_failure(graphs: Graphs) -> None:
    body = (
        'p [shape=component] j [shape=tripleoctagon] a [shape=parallelogram, script="{a}"] b [shape=parallelogram, script="exit 1"] '
        "start -> p; p -> a -> j; p -> b -> j; j -> exit"
    )
    assert graphs.run(body.replace("{a}", "true")).status == "partially_succeeded"
    result = graphs.run(body.replace("{a}", "exit 1"))
    assert result.status == "failed"
    assert "All branches failed" in graphs.failure(result)


def test_the_first_success_is_enough_when_that_is_the_policy(graphs: Graphs) -> None:
    body = (
        "p [shape=component, join_policy=first_success] j [shape=tripleoctagon] "
        'a [shape=parallelogram, script="true"] b [shape=parallelogram, script="sleep 30"] '
        "start -> p; p -> a -> j; p -> b -> j; j -> exit"
    )
    assert graphs.run(body).status == "succeeded"
    assert [each["id"] for each in graphs.context()["parallel.results"]] == ["a"]


def test_a_branch_of_the_attractor_dialect_walks_on_to_the_fan_in(graphs: Graphs) -> None:
    body = (
        "p [shape=component] j [shape=tripleoctagon] a [prompt=a] a2 [prompt=a2] b [prompt=b] "
        "start -> p; p -> a -> a2 -> j; p -> b -> j; j -> exit"
    )
    assert graphs.run(body, ending="dot").status == "succeeded"
    steps = [event.step for event in graphs.events("step.completed") if event.properties.get("node_id")]
    assert "p/+a/a2" in steps
    assert graphs.checkpoint()["current_node"] == "exit"


def test_a_timer_waits_its_time(graphs: Graphs) -> None:
    assert graphs.run("w [shape=insulator, duration=50ms] start -> w -> exit").status == "succeeded"
    [ended] = [e for e in graphs.events("step.completed") if e.step == "w"]
    assert int(ended.properties["duration_ms"]) >= 50  # type: ignore[arg-type]


def test_a_child_workflow_is_a_run_of_its_own_under_its_node(graphs: Graphs) -> None:
    child = "digraph kid { start [shape=Mdiamond] exit [shape=Msquare] k [prompt=k] start -> k -> exit }"
    (graphs.folder / "kid.fabro").write_text(child)
    body = 'm [shape=house, stack.child_workflow="kid.fabro"] start -> m -> exit'
    files = {f"{graphs.folder}|kid.fabro": f"{graphs.folder}/kid.fabro\n{child}"}
    definition = graphs.definition(body)
    definition.files.update(files)
    graphs.run_id = graphs.engine.submit(definition)
    assert graphs.resume().status == "succeeded"

    [made] = graphs.store.child_runs(graphs.run_id)
    assert made.run_dir.endswith("nodes/m/child")
    assert json.loads(Path(made.run_dir, "conclusion.json").read_text())["status"] == "succeeded"
    assert graphs.context()["stack.child.status"] == "succeeded"


def test_an_imported_graph_stands_in_the_nodes_place(graphs: Graphs) -> None:
    (graphs.folder / "part.fabro").write_text(
        "digraph part { start [shape=Mdiamond] exit [shape=Msquare] x [prompt=x] y [prompt=y] start -> x -> y -> exit }"
    )
    assert graphs.run('i [import="part.fabro"] z [prompt=z] start -> i -> z -> exit').status == "succeeded"
    assert graphs.path() == ["start", "i.x", "i.y", "z"]


def test_a_dry_run_goes_all_the_way_and_starts_nothing(graphs: Graphs) -> None:
    body = (
        'a [prompt=a] c [shape=parallelogram, script="touch ran"] g [shape=hexagon] p [shape=component] j [shape=tripleoctagon] '
        'start -> a -> c -> g; g -> p [label="[Y] Yes"]; g -> exit [label="[N] No"]; p -> x -> j; p -> y -> j; j -> exit '
        "x [prompt=x] y [prompt=y]"
    )
    assert graphs.run(body, dry_run=True).status == "succeeded"
    assert graphs.path() == ["start", "a", "c", "g", "p", "j"]
    assert not (graphs.work / "ran").exists()
    assert graphs.context()["last_response"].startswith("[Simulated]")


def test_a_setup_command_that_fails_ends_the_run_before_its_first_node(graphs: Graphs) -> None:
    result = graphs.run("a [prompt=a] start -> a -> exit", setup=["true", "echo no >&2; exit 4"])
    assert result.status == "failed"
    assert "exit code 4" in graphs.failure(result)
    assert graphs.path() == []


def test_a_stalled_run_fails_but_one_that_waits_for_a_person_does_not(graphs: Graphs) -> None:
    result = graphs.run('stall_timeout=300ms a [shape=parallelogram, script="sleep 60"] start -> a -> exit')
    assert result.status == "failed"
    assert "stall_timeout" in graphs.failure(result)
    assert len(graphs.events("watchdog.timeout")) == 1


def test_a_node_may_have_a_stall_limit_of_its_own(graphs: Graphs) -> None:
    body = 'stall_timeout=200ms a [shape=parallelogram, stall_timeout=30s, script="sleep 0.8"] start -> a -> exit'
    assert graphs.run(body).status == "succeeded"
    body = 'stall_timeout=0 a [shape=parallelogram, stall_timeout=300ms, script="sleep 60"] start -> a -> exit'
    assert graphs.run(body).status == "failed"


def test_a_hook_may_block_and_its_call_is_recorded(graphs: Graphs) -> None:
    hooks = [{"event": "stage_start", "matcher": "^b$", "command": "echo not this one >&2; exit 2"}]
    result = graphs.run("a [prompt=a] b [prompt=b] start -> a -> b -> exit", hooks=hooks)
    assert result.status == "failed"
    assert "not this one" in graphs.failure(result)


def test_files_that_a_node_made_are_captured_within_the_caps(graphs: Graphs) -> None:
    body = 'a [shape=parallelogram, script="mkdir -p out; echo hi > out/x.txt; ln -s /etc/passwd out/link; head -c 11000000 /dev/zero > out/big"] start -> a -> exit'
    assert graphs.run(body, artifacts=["out/*"]).status == "succeeded"
    [captured] = graphs.events("artifact.captured")
    manifest = captured.properties["manifest"]
    assert isinstance(manifest, dict)
    assert [each["path"] for each in manifest["captured_assets"]] == ["out/x.txt"]  # type: ignore[union-attr,index,call-overload]
    assert manifest["files_skipped"] == 1
    row = graphs.store.find_run(graphs.run_id)
    assert row is not None
    assert Path(row.run_dir, "cache/artifacts/files/a/retry_1/out/x.txt").read_text() == "hi\n"


def test_a_large_value_lies_in_a_file_of_its_own_and_not_in_every_checkpoint(graphs: Graphs) -> None:
    graphs.answers["a"] = {"text": "x" * 200_000}
    assert graphs.run("a [prompt=a] b [prompt=b] c [prompt=c] start -> a -> b -> c -> exit").status == "succeeded"
    assert graphs.context()["response.a"].startswith("file://")
    row = graphs.store.find_run(graphs.run_id)
    assert row is not None
    value = Path(row.run_dir, "cache/artifacts/values/response.a.json").read_text()
    assert json.loads(value) == "x" * 200_000
    assert Path(row.run_dir, "progress.jsonl").stat().st_size < 100_000


def test_the_retrospective_has_figures_without_any_model(graphs: Graphs) -> None:
    graphs.answers["a"] = [{"fail": "once"}, "then"]
    graphs.run('a [prompt=a] b [prompt=b] start -> a; a -> b [condition="outcome=fail"]; a -> exit; b -> a')
    row = graphs.store.find_run(graphs.run_id)
    assert row is not None
    retro = json.loads(Path(row.run_dir, "retro.json").read_text())
    assert retro["smoothness_rating"] in ("bumpy", "struggled")
    assert retro["stats"]["stages_failed"] == 1
    assert {"learnings", "friction_points", "stages"} <= retro.keys()


KID = 'digraph kid { start [shape=Mdiamond] exit [shape=Msquare] k [shape=parallelogram, script="%s"] l [prompt=l] start -> k -> l -> exit }'


def managed(graphs: Graphs, script: str, attributes: str) -> str:
    """Run a manager over a child; its last status."""
    child = KID % script
    body = f'm [shape=house, stack.child_workflow="kid.fabro", manager.poll_interval=50ms, {attributes}] start -> m -> exit'
    definition = graphs.definition(body)
    definition.files[f"{graphs.folder}|kid.fabro"] = f"{graphs.folder}/kid.fabro\n{child}"
    graphs.run_id = graphs.engine.submit(definition)
    return graphs.resume().status


def test_a_content_manager_ends_its_child(graphs: Graphs) -> None:
    graphs.answers["l"] = {"text": "x", "delay_ms": 60_000}
    assert managed(graphs, "echo ready", 'manager.stop_condition="command.output contains ready"') == "succeeded"
    [child] = graphs.store.child_runs(graphs.run_id)
    assert child.status == "cancelled"


def test_a_manager_gives_up_after_its_cycles(graphs: Graphs) -> None:
    assert managed(graphs, "sleep 60", "manager.max_cycles=3") == "failed"
    [child] = graphs.store.child_runs(graphs.run_id)
    assert child.status == "cancelled"


def test_managers_in_branches_have_each_a_child_of_their_own_and_see_it(graphs: Graphs) -> None:
    graphs.answers["l"] = {"text": "x", "delay_ms": 60_000}
    manager = 'shape=house, stack.child_workflow="kid.fabro", manager.poll_interval=50ms'
    stop = 'manager.stop_condition="command.output contains ready"'
    definition = graphs.definition(
        f"fork [shape=component] join [shape=tripleoctagon] one [{manager}, {stop}] two [{manager}, {stop}] "
        "start -> fork -> one -> join -> exit fork -> two -> join"
    )
    definition.files[f"{graphs.folder}|kid.fabro"] = f"{graphs.folder}/kid.fabro\n{KID % 'echo ready'}"
    graphs.run_id = graphs.engine.submit(definition)

    assert graphs.resume().status == "succeeded"
    children = graphs.store.child_runs(graphs.run_id)
    assert sorted(os.path.basename(child.run_dir) for child in children) == ["child-one", "child-two"]
    assert {child.status for child in children} == {"cancelled"}
