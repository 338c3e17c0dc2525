"""Checks of attributes: known names, fitting values, nothing without effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.graph.attributes import ATTRIBUTES, DRAWING, FIDELITIES, PERMISSIONS
from perdure.graph.diagnostics import Diagnostic, error, warning
from perdure.graph.dialect import Dialect
from perdure.graph.joining import ERROR_POLICIES, EVERYWHERE, POLICIES
from perdure.graph.model import HANDLERS, SHAPES, Attributes, Edge, Graph, Node, as_duration_ms
from perdure.graph.stylesheet import BadStylesheet, parse_stylesheet
from perdure.kernel.capacity.tags import BadTag, parse_tags

_ABSOLUTE_CD = re.compile(r"(?:^|[;&|]\s*)\s*cd\s+[\"']?/")
_DIRECTIONS = ("TB", "LR", "BT", "RL")
_BACKENDS = ("command", "scripted", "simulated", "claude-code", "codex", "acp", "api", "cli")


def stylesheet_syntax(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """The stylesheet can be read."""
    try:
        parse_stylesheet(graph.text("model_stylesheet"))
    except BadStylesheet as problem:
        yield error("stylesheet_syntax", str(problem))


def type_known(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Types are handlers."""
    for node in graph.nodes.values():
        named = node.text("type")
        if named and named not in HANDLERS:
            yield warning(
                "type_known",
                f"node {node.id} has the unknown type {named!r}; it runs as {node.handler}.",
                node_id=node.id,
            )
        shape = node.text("shape").lower()
        if not named and shape not in SHAPES:
            yield warning(
                "type_known", f"node {node.id} has the shape {shape!r}; it runs as an agent.", node_id=node.id
            )


def fidelity_valid(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Fidelities are known."""
    for holder, name in _holders(graph):
        for key in ("fidelity", "default_fidelity"):
            value = holder.attrs.get(key)
            if value is not None and str(value) not in FIDELITIES:
                yield warning(
                    "fidelity_valid",
                    f"{name} has the unknown {key} {value!r}.",
                    fix=f"One of {', '.join(FIDELITIES)}.",
                    **_place(holder),
                )


def thread_id_requires_fidelity_full(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """A thread has an effect."""
    for node in graph.nodes.values():
        fidelity = node.text("fidelity") or graph.text("default_fidelity")
        reached_full = any(edge.text("fidelity") == "full" for edge in graph.incoming(node.id))
        if node.text("thread_id") and fidelity != "full" and not reached_full:
            yield warning(
                "thread_id_requires_fidelity_full",
                f"node {node.id} has a thread_id, which has an effect with fidelity=full only.",
                node_id=node.id,
            )


def prompt_on_llm_nodes(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Agents are asked something."""
    for node in graph.nodes.values():
        if node.handler in ("agent", "prompt") and not node.text("prompt") and not node.text("label"):
            yield warning(
                "prompt_on_llm_nodes", f"node {node.id} has neither prompt nor label.", node_id=node.id, line=node.line
            )


def command_requires_script(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Commands run something."""
    for node in graph.by_handler("command"):
        if not node.text("script").strip():
            yield warning(
                "command_requires_script", f"command node {node.id} has no script; it fails.", node_id=node.id
            )


def wait_requires_duration(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Waits know how long."""
    for node in graph.by_handler("wait"):
        if node.duration_ms("duration") is None:
            yield error(
                "wait_requires_duration", f"wait node {node.id} needs a duration.", node_id=node.id, line=node.line
            )


def script_absolute_cd(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Scripts stay in their working folder."""
    for node in graph.by_handler("command"):
        if _ABSOLUTE_CD.search(node.text("script")):
            yield warning("script_absolute_cd", f"the script of {node.id} goes to an absolute folder.", node_id=node.id)


def direction_valid(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """The drawing direction is known."""
    if graph.text("rankdir") not in _DIRECTIONS:
        yield warning("direction_valid", f"rankdir {graph.text('rankdir')!r} is none of {', '.join(_DIRECTIONS)}.")


def value_kinds(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Numbers are numbers, durations durations."""
    for holder, name in _holders(graph):
        for key, value in holder.attrs.items():
            known = ATTRIBUTES.get(key)
            if known is None:
                continue
            if known.kind == "duration" and as_duration_ms(value) is None:
                yield error(
                    "value_kind",
                    f"{name}: {key}={value!r} is no duration.",
                    fix="Write one like 30s or 15m.",
                    **_place(holder),
                )
            elif known.kind == "integer" and not str(value).strip().lstrip("-").isdigit():
                yield error("value_kind", f"{name}: {key}={value!r} is no whole number.", **_place(holder))


def join_policies(graph: Graph, dialect: Dialect) -> Iterator[Diagnostic]:
    """Branches are joined as the node says, by words that the dialect knows."""
    policies = POLICIES if dialect.older_joins else EVERYWHERE
    errors = ERROR_POLICIES if dialect.older_joins else ("continue",)
    elsewhere = "" if dialect.older_joins else " It counts in .dot files."
    for node in graph.nodes.values():
        policy, error_policy = node.text("join_policy"), node.text("error_policy")
        if policy not in policies:
            text = f"join_policy {policy!r} of {node.id} counts as wait_all."
            fix = elsewhere.strip() or None if policy in POLICIES else None
            yield warning("join_policy_valid", text, node_id=node.id, fix=fix)
        if error_policy not in errors:
            text = f"error_policy {error_policy!r} of {node.id} counts as continue."
            fix = elsewhere.strip() or None if error_policy in ERROR_POLICIES else None
            yield warning("error_policy_valid", text, node_id=node.id, fix=fix)
        yield from _join_count(graph, node, dialect)


def _join_count(graph: Graph, node: Node, dialect: Dialect) -> Iterator[Diagnostic]:
    """The number of branches that must succeed is there, and can be reached."""
    count = len(graph.outgoing(node.id))
    policy = node.text("join_policy")
    if not dialect.older_joins or node.handler != "parallel" or policy not in ("k_of_n", "quorum"):
        return
    if policy == "k_of_n" and node.integer("join_k") is None and node.integer("k") is None:
        text = f"{node.id} joins k_of_n without join_k, so all {count} branches must succeed."
        yield warning("join_count_valid", text, node_id=node.id)
    elif policy == "k_of_n" and not 1 <= (node.integer("join_k") or node.integer("k") or 0) <= count:
        text = f"join_k of {node.id} is not from 1 to {count}, the number of its branches."
        yield error("join_count_valid", text, node_id=node.id)
    for name in ("quorum_fraction", "join_quorum"):
        if policy == "quorum" and name in node.attrs and not 0 < node.number(name) <= 1:
            yield error("join_count_valid", f"{name} of {node.id} is not above 0 and at most 1.", node_id=node.id)


def known_words(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Values that are one of a few words are one of them."""
    for node in graph.nodes.values():
        backend = node.text("backend")
        if backend and backend not in _BACKENDS:
            yield warning("backend_valid", f"node {node.id} wants the unknown backend {backend!r}.", node_id=node.id)
        permission = node.text("permission")
        if permission and permission not in PERMISSIONS:
            yield error(
                "permission_valid",
                f"node {node.id} has the unknown permission {permission!r}.",
                fix=f"One of {', '.join(PERMISSIONS)}.",
                node_id=node.id,
            )


def mutex_valid(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Mutex tags can be read."""
    for node in graph.nodes.values():
        if "mutex" not in node.attrs:
            continue
        try:
            parse_tags(node.text("mutex"))
        except BadTag as problem:
            yield error("mutex_valid", f"node {node.id}: {problem.message}", fix=problem.hint, **_place(node))


def unknown_attribute(graph: Graph, _dialect: Dialect) -> Iterator[Diagnostic]:
    """Attributes that mean nothing here are kept and named."""
    names = list(ATTRIBUTES)
    for holder, name in _holders(graph):
        for key in holder.attrs:
            if (
                key not in ATTRIBUTES
                and key not in DRAWING
                and not key.startswith(("x-", "x_", "human.", "manager.", "stack."))
            ):
                from difflib import get_close_matches

                close = get_close_matches(key, names, 1, 0.75)
                fix = f"Did you mean {close[0]}?" if close else None
                yield warning(
                    "unknown_attribute", f"{name} has {key}, which means nothing here.", fix=fix, **_place(holder)
                )


def _place(holder: Attributes) -> dict[str, object]:
    """Where a finding about a holder stands."""
    if isinstance(holder, Node):
        return {"node_id": holder.id, "line": holder.line}
    return {"edge": (holder.source, holder.target), "line": holder.line} if isinstance(holder, Edge) else {}


def _holders(graph: Graph) -> Iterator[tuple[Attributes, str]]:
    yield graph, "the graph"
    for node in graph.nodes.values():
        yield node, f"node {node.id}"
    for edge in graph.edges:
        yield edge, f"edge {edge.source} -> {edge.target}"


CHECKS = (
    stylesheet_syntax, type_known, fidelity_valid, thread_id_requires_fidelity_full, prompt_on_llm_nodes,
    command_requires_script, wait_requires_duration, script_absolute_cd, direction_valid, value_kinds, join_policies,
    known_words, mutex_valid, unknown_attribute,
)  # fmt: skip
