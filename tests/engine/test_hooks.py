"""Hooks on a real run: called once each, told what happens, and able to stop it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from perdure.disk import process
from perdure.kernel.ending import RunResult

from .conftest import Graphs

BODY = "a [prompt=a] b [prompt=b] start -> a -> b -> exit"


def run(graphs: Graphs, *hooks: dict[str, Any], body: str = BODY, **options: Any) -> RunResult:
    return graphs.run(body, hooks=list(hooks), **options)


def notices(graphs: Graphs) -> dict[str, str]:
    return {str(event.properties["code"]): str(event.properties["message"]) for event in graphs.events("run.notice")}


def lines(graphs: Graphs, name: str = "called") -> list[str]:
    return (graphs.work / name).read_text().splitlines()


TELL = 'echo "$PERDURE_EVENT $PERDURE_NODE_ID" >> called'


def test_hooks_are_called_at_every_event_of_a_run(graphs: Graphs) -> None:
    events = [
        "run_start",
        "step_start",
        "step_complete",
        "step_failed",
        "edge_selected",
        "checkpoint_saved",
        "run_complete",
    ]
    graphs.answers["b"] = {"fail": "no"}
    body = 'a [prompt=a] b [prompt=b] start -> a -> b -> exit; b -> exit [condition="outcome=failed"]'
    run(graphs, *[{"event": event, "command": TELL} for event in events], body=body)

    around = ["step_start {}", "step_complete {}", "edge_selected {}", "checkpoint_saved {}"]
    told = [each.format(node) for node in ("start", "a", "b") for each in around]
    told[told.index("step_complete b")] = "step_failed b"
    assert lines(graphs) == ["run_start ", *told, "run_complete "]


def test_a_failed_run_calls_its_own_hook(graphs: Graphs) -> None:
    graphs.answers["a"] = {"fail": "no"}
    run(graphs, {"event": "run_failed", "command": TELL}, {"event": "run_complete", "command": TELL})

    assert lines(graphs) == ["run_failed "]


def test_a_hook_gets_the_event_as_json_on_its_input(graphs: Graphs) -> None:
    run(
        graphs,
        {"event": "edge_selected", "matcher": "^a$", "command": 'cat > told; echo "$PERDURE_HOOK_CONTEXT" > same'},
    )
    told = json.loads((graphs.work / "told").read_text())

    assert (told["event"], told["node_id"], told["target"], told["workflow"]) == ("edge_selected", "a", "b", "g")
    assert told["run_id"] == graphs.run_id
    assert json.loads((graphs.work / "same").read_text()) == told


def test_a_hook_of_another_tools_file_is_told_its_own_word(graphs: Graphs) -> None:
    run(graphs, {"event": "stage_start", "matcher": "^a$", "command": TELL})

    assert lines(graphs) == ["stage_start a"]


def test_a_hook_that_blocks_the_start_ends_the_run_before_its_first_node(graphs: Graphs) -> None:
    result = run(graphs, {"event": "run_start", "command": "echo not on fridays >&2; exit 2"})

    assert result.status == "failed"
    assert result.outcome is not None
    assert result.outcome.reason == "blocked_by_hook"
    assert "not on fridays" in graphs.failure(result)
    assert graphs.path() == []


def test_a_hook_that_blocks_a_node_makes_it_fail(graphs: Graphs) -> None:
    body = 'a [prompt=a] b [prompt=b] start -> a; a -> exit; a -> b [condition="outcome=failed"]; b -> exit'
    run(graphs, {"event": "step_start", "matcher": "^a$", "command": "exit 1"}, body=body)

    assert graphs.path() == ["start", "a", "b"]
    assert [event.step for event in graphs.events("step.prompt")] == ["b"]


def test_a_hook_that_skips_a_node_lets_the_run_go_on(graphs: Graphs) -> None:
    skip = """echo '{"decision": "skip", "reason": "done yesterday"}'"""

    assert run(graphs, {"event": "step_start", "matcher": "^a$", "command": skip}).status == "succeeded"
    assert graphs.checkpoint()["node_outcomes"]["a"] == "skipped"
    [skipped] = graphs.events("step.skipped")
    assert "done yesterday" in str(skipped.properties["reason"])


def test_a_hook_may_send_the_run_another_way(graphs: Graphs) -> None:
    body = "a [prompt=a] b [prompt=b] c [prompt=c] start -> a -> b -> exit; c -> exit; b -> c"
    run(
        graphs,
        {"event": "edge_selected", "matcher": "^a$", "command": """echo '{"decision": "override", "edge_to": "c"}'"""},
        body=body,
    )

    assert graphs.path() == ["start", "a", "c"]


@pytest.mark.parametrize("command", ["exit 2", """echo '{"decision": "override", "edge_to": "nowhere"}'"""])
def test_an_edge_that_a_hook_blocks_or_sends_nowhere_ends_the_run(graphs: Graphs, command: str) -> None:
    result = run(graphs, {"event": "edge_selected", "matcher": "^a$", "command": command})

    assert result.outcome is not None
    assert (result.status, result.outcome.reason) == ("failed", "blocked_by_hook")
    assert graphs.path() == ["start", "a"]


@pytest.mark.parametrize("event", ["step_complete", "checkpoint_saved", "run_complete"])
def test_a_hook_of_what_has_happened_counts_when_it_is_said_to_be_blocking(graphs: Graphs, event: str) -> None:
    hook = {"event": event, "command": "exit 1", "matcher": "" if event == "run_complete" else "^a$"}

    assert run(graphs, hook).status == "succeeded"
    assert run(graphs, hook | {"blocking": True}).status == "failed"


def test_a_failing_hook_that_does_not_count_leaves_a_notice(graphs: Graphs) -> None:
    hook = {
        "event": "step_start",
        "matcher": "^a$",
        "command": "echo oh >&2; exit 1",
        "blocking": False,
        "name": "watcher",
    }

    assert run(graphs, hook).status == "succeeded"
    assert "watcher" in notices(graphs)["hook_failed"]
    assert "oh" in notices(graphs)["hook_failed"]


def test_a_hook_that_takes_too_long_is_ended_and_a_gate_stays_shut(graphs: Graphs) -> None:
    hook = {"event": "step_start", "matcher": "^a$", "command": "echo $$ > pid; sleep 300", "timeout_ms": 400}
    result = run(graphs, hook)

    assert result.status == "failed"
    assert "longer than 400 ms" in graphs.failure(result)
    assert process.started_at(int((graphs.work / "pid").read_text())) is None


def test_hooks_are_not_called_in_a_dry_run(graphs: Graphs) -> None:
    assert run(graphs, {"event": "run_start", "command": "touch called; exit 2"}, dry_run=True).status == "succeeded"
    assert not (graphs.work / "called").exists()


def test_every_branch_calls_its_hooks_and_may_be_blocked(graphs: Graphs) -> None:
    body = """p [shape=component] x [shape=parallelogram, script="sleep 0.2"] y [shape=parallelogram, script="true"] j [shape=tripleoctagon]
        start -> p; p -> x; p -> y; x -> j; y -> j; j -> exit"""
    shut = {"event": "step_start", "matcher": "^y$", "command": "exit 2"}
    events = ["step_start", "step_complete", "step_failed", "parallel_start", "parallel_complete"]
    run(graphs, *[{"event": each, "matcher": "^[pxy]$", "command": TELL} for each in events], shut, body=body)

    assert sorted(lines(graphs)) == [
        "parallel_complete p", "parallel_start p", "step_complete p", "step_complete x", "step_failed y",
        "step_start p", "step_start x", "step_start y",
    ]  # fmt: skip
    assert graphs.checkpoint()["node_outcomes"]["p"] == "partially_succeeded"


def test_hooks_of_branches_have_ids_that_do_not_depend_on_who_is_first(graphs: Graphs) -> None:
    body = """p [shape=component] x [shape=parallelogram, script="sleep %s"] y [shape=parallelogram, script="sleep %s"] j [shape=tripleoctagon]
        start -> p; p -> x; p -> y; x -> j; y -> j; j -> exit"""
    ids = []
    for times in ((0.3, 0), (0, 0.3)):
        run(graphs, {"event": "step_complete", "matcher": "^[xy]$", "command": "true"}, body=body % times)
        calls = [event for event in graphs.events("step.started") if event.properties.get("operation") == "graph.hook"]
        ids.append({(event.step, json.dumps(event.properties["input"])) for event in calls})

    assert ids[0] == ids[1]
    assert len(ids[0]) == 2


def test_another_attempt_calls_its_hook_and_may_be_refused(graphs: Graphs) -> None:
    graphs.answers["a"] = [[{"fail": "x", "retryable": True}, "fine"]]
    hook = {"event": "step_retrying", "command": TELL}
    body = "a [prompt=a, retry_policy=linear] start -> a -> exit"

    assert run(graphs, hook, body=body).status == "succeeded"
    assert lines(graphs) == ["step_retrying a"]
    assert run(graphs, hook | {"command": "exit 1", "blocking": True}, body=body).status == "failed"


def test_a_hook_that_was_called_is_not_called_again_by_a_resumed_run(graphs: Graphs) -> None:
    body = 'a [prompt=a] g [shape=hexagon] start -> a -> g; g -> exit [label="[Y] Yes"]'
    run(graphs, {"event": "step_start", "command": TELL}, body=body)
    assert lines(graphs) == ["step_start start", "step_start a", "step_start g"]
    graphs.answer("Y")

    assert graphs.resume().status == "succeeded"
    assert lines(graphs) == ["step_start start", "step_start a", "step_start g"]


def test_a_secret_that_a_hook_prints_is_not_kept(graphs: Graphs) -> None:
    from perdure.base.masking import Masker

    graphs.engine.mask = Masker(["hunter2-and-more"])
    (graphs.work / "key").write_text("hunter2-and-more")
    run(graphs, {"event": "step_start", "matcher": "^a$", "command": "cat key >&2; exit 2"})
    kept = [path for path in (graphs.folder / "runs").rglob("*") if path.is_file()]

    assert [path for path in kept if b"hunter2" in path.read_bytes()] == []
    assert "hunter2" not in json.dumps([event.properties for event in graphs.events()])


class Server:
    """Answers hooks on loopback; `reply` is called with the request."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.headers: list[Any] = []
        self.status, self.body = 200, b"{}"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                outer.headers.append(dict(self.headers))
                if outer.status == 0:
                    self.wfile.write(b"this is no http\r\n\r\n")
                    return
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def test_a_hook_over_http_is_told_and_decides(graphs: Graphs, server: Server) -> None:
    server.body = b'{"decision": "block", "reason": "closed"}'
    result = run(graphs, {"event": "step_start", "matcher": "^a$", "type": "http", "url": server.url})

    assert "closed" in graphs.failure(result)
    assert [told["node_id"] for told in server.told] == ["a"]


def test_a_header_takes_a_variable_that_is_not_recorded(
    graphs: Graphs, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_KEY", "of-the-environment")
    headers = {"Authorization": "Bearer ${env.HOOK_KEY}"}
    run(
        graphs,
        {"event": "run_start", "type": "http", "url": server.url, "headers": headers, "allowed_env_vars": ["HOOK_KEY"]},
    )

    assert server.headers[0]["Authorization"] == "Bearer of-the-environment"
    assert "of-the-environment" not in json.dumps([event.properties for event in graphs.events()])


@pytest.mark.parametrize("trouble", ["500", "nobody there", "no http"])
def test_a_hook_over_http_that_is_out_of_order_lets_the_run_go_on_and_leaves_a_notice(
    graphs: Graphs, server: Server, trouble: str
) -> None:
    server.status = {"500": 500, "no http": 0}.get(trouble, 200)
    url = "http://127.0.0.1:9/" if trouble == "nobody there" else server.url

    assert run(graphs, {"event": "run_start", "type": "http", "url": url}).status == "succeeded"
    assert url in notices(graphs)["hook_failed"]


def test_a_hook_over_http_that_never_answers_holds_nobody_longer_than_its_limit(graphs: Graphs) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert run(graphs, {"event": "run_start", "type": "http", "url": url, "timeout_ms": 300}).status == "succeeded"

    assert "300 ms" in notices(graphs)["hook_failed"]
