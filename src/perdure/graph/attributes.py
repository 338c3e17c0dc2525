"""Every attribute that means something: its kind, its default, where it belongs. One table for checks, docs and engine."""

from typing import Literal

import msgspec

Kind = Literal["text", "integer", "number", "flag", "duration"]
Place = Literal["graph", "node", "edge"]


class AttributeKind(msgspec.Struct, frozen=True):
    """What an attribute is. `default` None means that there is none; durations are in milliseconds."""

    name: str
    kind: Kind
    places: tuple[Place, ...]
    default: str | int | float | bool | None
    meaning: str


def _a(name: str, kind: Kind, places: str, default: str | float | bool | None, meaning: str) -> AttributeKind:
    names: dict[str, Place] = {"g": "graph", "n": "node", "e": "edge"}
    return AttributeKind(name, kind, tuple(names[sign] for sign in places), default, meaning)


ATTRIBUTES = {
    each.name: each
    for each in (
        _a("goal", "text", "g", "", "What the run is for; `$goal` and `{{ goal }}` stand for it."),
        _a("label", "text", "gne", "", "The name for people; of an edge: what a choice is called."),
        _a("rankdir", "text", "g", "TB", "How the graph is drawn: `TB`, `LR`, `BT`, `RL`."),
        _a("model_stylesheet", "text", "g", "", "Rules that set model attributes of many nodes."),
        _a("default_max_retries", "integer", "g", 0, "Retries of nodes that do not say."),
        _a("retry_target", "text", "gn", "", "Where to go when a goal gate or a failure has no way out."),
        _a("fallback_retry_target", "text", "gn", "", "Where to go when `retry_target` is not there."),
        _a("default_fidelity", "text", "g", "", "How much history agents see that do not say."),
        _a("default_thread", "text", "g", "", "The conversation of agents that do not say."),
        _a("default_model", "text", "g", "", "The model of agents that do not say."),
        _a("default_provider", "text", "g", "", "The provider of agents that do not say."),
        _a("max_node_visits", "integer", "g", 0, "How often any node may be visited; 0 is the built-in bound."),
        _a("stall_timeout", "duration", "gn", 1_800_000, "How long nothing may happen before the run fails; 0 is off."),
        _a("loop_restart_signature_limit", "integer", "g", 3, "How often one failure may come again."),
        _a("on_failure", "text", "gn", "route", "What a failure without a fail edge does: `route`, `exit`, `succeed`."),
        _a("vars", "text", "g", "", "Names of variables that the graph wants."),
        _a("tool_hooks.pre", "text", "gn", "", "A command before each tool call; not zero keeps it from being made."),
        _a("tool_hooks.post", "text", "gn", "", "A command after each tool call."),
        _a("shape", "text", "n", "box", "Which handler runs the node."),
        _a("type", "text", "n", "", "The handler by name; beats `shape`."),
        _a("class", "text", "n", "", "Classes for the stylesheet."),
        _a("prompt", "text", "n", "", "What an agent is asked; `@file` takes it from a file."),
        _a("timeout", "duration", "n", None, "The time limit of one attempt."),
        _a("max_retries", "integer", "n", None, "Attempts after the first."),
        _a("retry_policy", "text", "n", "", "A named policy: `none`, `standard`, `aggressive`, `linear`, `patient`."),
        _a("goal_gate", "flag", "n", False, "The run succeeds only if this node did."),
        _a("allow_partial", "flag", "n", False, "A failure after all attempts counts as a partial success."),
        _a("auto_status", "flag", "n", False, "Any status but skipped becomes a success, with a note."),
        _a("max_visits", "integer", "n", 0, "How often the node may be visited."),
        _a("selection", "text", "n", "deterministic", "`random` draws an unconditional edge by weight."),
        _a("fidelity", "text", "ne", "", "How much history the next agent sees."),
        _a("thread_id", "text", "ne", "", "Which conversation an agent goes on with."),
        _a("model", "text", "n", "", "The model."),
        _a("provider", "text", "n", "", "The provider."),
        _a("reasoning_effort", "text", "n", "high", "`low`, `medium`, `high`."),
        _a("max_tokens", "integer", "n", None, "The most that a model may answer."),
        _a("speed", "text", "n", "", "A provider's speed setting."),
        _a(
            "mutex",
            "text",
            "n",
            "",
            "What no other agent on this machine may use meanwhile: tags like `use-computer:screen`.",
        ),
        _a("backend", "text", "n", "", "Which backend answers: `command`, `codex`, ..."),
        _a("permission", "text", "n", "", "What an agent may do: `read-only`, `read-write`, `full`."),
        _a("project_memory", "flag", "n", True, "Whether agents read the project's instructions."),
        _a("output_schema", "text", "n", "", "The JSON Schema that an agent's answer must fulfil: inline, or `@file`."),
        _a("max_agent_turns", "integer", "n", None, "The most turns of an agent."),
        _a(
            "budget_usd",
            "text",
            "n",
            None,
            "What an agent may cost in US dollars; it pauses before the call that would come after.",
        ),
        _a(
            "budget_tokens",
            "integer",
            "n",
            None,
            "How many tokens an agent may use; it pauses before the call that would come after.",
        ),
        _a(
            "budget_tool_calls",
            "integer",
            "n",
            None,
            "How many tools an agent may call; it pauses before the next one.",
        ),
        _a("script", "text", "n", "", "What a command node runs."),
        _a("language", "text", "n", "shell", "`shell` or `python`."),
        _a("join_policy", "text", "n", "wait_all", "`wait_all`, `first_success`; in `.dot` also `k_of_n`, `quorum`."),
        _a("join_k", "integer", "n", None, "How many branches `k_of_n` needs."),
        _a("k", "integer", "n", None, "The same, by its shorter name."),
        _a("quorum_fraction", "number", "n", 0.5, "The part of the branches that `quorum` needs."),
        _a("join_quorum", "number", "n", 0.5, "The same, by another name."),
        _a(
            "error_policy", "text", "n", "continue", "Of failed branches, in `.dot`: `continue`, `fail_fast`, `ignore`."
        ),
        _a("max_parallel", "integer", "n", 4, "Branches at once."),
        _a("duration", "duration", "n", None, "How long a wait node waits."),
        _a("human.default_choice", "text", "n", "", "The edge that is taken when nobody answers in time."),
        _a("question_type", "text", "n", "", "Forces a type of question."),
        _a("stack.child_workflow", "text", "n", "", "The workflow that a manager runs."),
        _a("stack.child_dotfile", "text", "gn", "", "The same, by its older name."),
        _a("stack.child_dot_source", "text", "n", "", "The same, as text."),
        _a("stack.child_workdir", "text", "g", "", "The working folder of child workflows."),
        _a("manager.poll_interval", "duration", "n", 45_000, "How often a manager looks."),
        _a("manager.max_cycles", "integer", "n", 1_000, "How often a manager looks at most."),
        _a("manager.stop_condition", "text", "n", "", "When a manager is content before the child's end."),
        _a("manager.actions", "text", "n", "", "What a manager may do: `observe`, `steer`."),
        _a("import", "text", "n", "", "A graph that stands in the node's place."),
        _a("score", "number", "n", 0.0, "How a fan-in ranks branches of one status."),
        _a("condition", "text", "e", "", "When the edge may be taken."),
        _a("weight", "integer", "e", 0, "Which of several edges is taken."),
        _a("loop_restart", "flag", "e", False, "Begin again at the target, with a fresh context."),
        _a("freeform", "flag", "e", False, "The edge takes whatever a person writes."),
    )
}

# Graphviz draws with these; here they mean nothing and are no mistake.
DRAWING = frozenset(
    [
        "color",
        "fillcolor",
        "fontcolor",
        "fontname",
        "fontsize",
        "style",
        "penwidth",
        "bgcolor",
        "margin",
        "nodesep",
        "ranksep",
        "splines",
        "width",
        "height",
        "fixedsize",
        "tooltip",
        "URL",
        "href",
        "dir",
        "arrowhead",
        "arrowtail",
        "labelloc",
        "labeljust",
        "rank",
        "constraint",
        "pad",
        "peripheries",
        "comment",
        "xlabel",
        "headlabel",
        "taillabel",
        "minlen",
        "ordering",
        "compound",
        "concentrate",
        "size",
        "ratio",
        "dpi",
    ]
)

PERMISSIONS = ("read-only", "read-write", "full")
FIDELITIES = ("full", "truncate", "compact", "summary:low", "summary:medium", "summary:high")
