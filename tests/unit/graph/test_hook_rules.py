"""What a hook is, when it is called and what its answer means."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.graph.config import BadConfig, Config, merge, parse_config
from perdure.graph.hook_rules import Call, Decision, blocks, decision_of, failure_of, header_values, parse_hook, wants
from perdure.graph.options import Hook

GATE = Hook("step_start", "true")
TOLD = Hook("step_complete", "true")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"event": "stage_strat", "command": "x"}, "there is no event 'stage_strat'"),
        ({"event": "run_start"}, "no command"),
        ({"event": "run_start", "command": "  "}, "no command"),
        ({"event": "run_start", "type": "http"}, "does not begin with http"),
        ({"event": "run_start", "type": "http", "url": "file:///etc/passwd"}, "does not begin with http"),
        ({"event": "run_start", "type": "prompt", "prompt": "Is it good?"}, "need a model"),
        ({"event": "run_start", "type": "agent", "prompt": "Look."}, "need a model"),
        ({"event": "run_start", "type": "pigeon", "command": "x"}, "pigeon"),
        ({"event": "run_start", "command": "x", "matcher": "("}, "no regular expression"),
        ({"event": "run_start", "command": "x", "timeout_ms": 0}, "not above 0"),
        ({"event": "run_start", "command": "x", "blocking": "yes"}, "blocking"),
        ({"command": "x"}, "event"),
    ],
)
def test_a_hook_that_could_never_do_its_work_is_refused_before_anything_starts(
    table: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadConfig, match=r"settings\.toml") as raised:
        parse_config({"hooks": [table]}, "settings.toml")

    assert problem in raised.value.message


def test_the_hook_that_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="hook budget:"):
        parse_hook({"event": "run_start", "name": "budget"}, 2)
    with pytest.raises(ValueError, match="hook 2:"):
        parse_hook({"event": "run_start"}, 2)


def test_fields_that_only_other_tools_know_are_left_alone() -> None:
    assert parse_hook({"event": "stage_start", "command": "x", "sandbox": True, "tls": "verify"}, 1).command == "x"


@pytest.mark.parametrize("event", ["step_start", "stage_start"])
def test_a_step_has_its_name_in_other_tools_files_too(event: str) -> None:
    assert wants(Hook(event, "x"), Call("step_start", "a"))
    assert blocks(Hook(event, "x"))


@pytest.mark.parametrize(
    ("matcher", "called"), [("", True), ("^lint$", True), ("comm", True), ("^test", False), ("human|lint", True)]
)
def test_a_matcher_finds_the_nodes_id_or_its_handler(matcher: str, called: bool) -> None:
    assert wants(Hook("step_start", "x", matcher=matcher), Call("step_start", "lint", "command")) == called


def test_what_a_hook_decides_counts_before_things_happen_and_else_on_request() -> None:
    assert [blocks(Hook(event, "x")) for event in ("run_start", "edge_selected", "step_complete", "run_failed")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert blocks(Hook("step_complete", "x", blocking=True))
    assert not blocks(Hook("step_start", "x", blocking=False))


@pytest.mark.parametrize(
    ("hook", "exit_code", "decision"),
    [
        (GATE, 0, "proceed"),
        (GATE, 2, "block"),
        (GATE, 1, "block"),
        (TOLD, 0, "proceed"),
        (TOLD, 1, "proceed"),
        (TOLD, 2, "block"),
    ],
)
def test_an_exit_code_decides(hook: Hook, exit_code: int, decision: str) -> None:
    assert decision_of(hook, exit_code, "", "").decision == decision


def test_a_reason_is_what_the_hook_said_last() -> None:
    assert decision_of(GATE, 2, "out", "no budget\n").reason == "no budget"
    assert decision_of(GATE, 2, "out\n", "").reason == "out"
    assert decision_of(GATE, 3, "", "").reason == "exit code 3"


def test_an_answer_beats_the_exit_code() -> None:
    assert decision_of(GATE, 1, '{"decision": "proceed"}', "").decision == "proceed"
    assert decision_of(GATE, 0, '{"decision": "skip", "reason": "done before"}', "") == Decision("skip", "done before")
    assert decision_of(GATE, 0, ' {"decision": "override", "edge_to": "fix", "more": 1}\n', "").edge_to == "fix"


@pytest.mark.parametrize("answer", ['{"decision": "maybe"}', '{"decision": 1}', '{"decision": "block", "reason": 5}'])
def test_an_answer_that_nobody_understands_never_passes_a_gate(answer: str) -> None:
    decision = decision_of(GATE, 0, answer, "")

    assert (decision.decision, decision.failed) == ("block", True)


@pytest.mark.parametrize("answer", ["{}", "{cut", "words", '{"verdict": "block"}', "[" * 100_000])
def test_an_output_that_is_no_decision_leaves_it_to_the_exit_code(answer: str) -> None:
    assert decision_of(GATE, 0, answer, "").decision == "proceed"
    assert decision_of(GATE, 2, answer, "").decision == "block"


def test_a_hook_cannot_say_that_it_failed() -> None:
    """Whether it did its work is not for it to say."""
    assert not decision_of(GATE, 0, '{"decision": "proceed", "failed": true}', "").failed


def test_a_gate_that_cannot_be_called_stays_shut_but_over_http_it_stands_open() -> None:
    assert failure_of(GATE, "no bash").decision == "block"
    assert failure_of(TOLD, "no bash").decision == "proceed"
    assert failure_of(Hook("step_start", type="http", url="http://x"), "refused").decision == "proceed"


def test_a_header_takes_only_the_variables_that_its_hook_may_read() -> None:
    headers = {"Authorization": "Bearer ${env.HOOK_TOKEN}!", "X": "${env.HOME}", "Y": "${env.cut", "Z": "plain"}
    hook = Hook("run_start", type="http", url="http://x", headers=headers, allowed_env_vars=["HOOK_TOKEN"])

    assert header_values(hook, {"HOOK_TOKEN": "t", "HOME": "/root"}) == {
        "Authorization": "Bearer t!", "X": "", "Y": "${env.cut", "Z": "plain",
    }  # fmt: skip


def test_of_hooks_with_one_name_the_strongest_layers_is_called() -> None:
    strong = Config(hooks=[Hook("run_start", "mine", name="n"), Hook("run_start", "unnamed")])
    weak = Config(hooks=[Hook("run_start", "theirs", name="n"), Hook("run_start", "other")])

    assert sorted(hook.command for hook in merge(strong, weak).hooks) == ["mine", "other", "unnamed"]


@given(st.sampled_from([GATE, TOLD]), st.integers(-15, 130) | st.none(), st.text(), st.text())
def test_no_output_breaks_the_reader(hook: Hook, exit_code: int | None, stdout: str, stderr: str) -> None:
    decision = decision_of(hook, exit_code, stdout, stderr)

    assert decision.decision in ("proceed", "block")


@pytest.mark.parametrize(
    ("table", "key"),
    [("artifacts", "include"), ("checkpoint", "exclude_globs"), ("setup", "commands"), ("sandbox", "pass_env")],
)
def test_a_text_where_a_list_belongs_is_refused_and_not_taken_letter_by_letter(table: str, key: str) -> None:
    with pytest.raises(BadConfig, match=f"{key} is 'abc', not a list"):
        parse_config({table: {key: "abc"}}, "settings.toml")
