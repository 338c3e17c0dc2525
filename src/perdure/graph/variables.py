"""Variables in a graph's text: `$name` and, in later files, `{{ inputs.name }}`. A goal is never taken for a template."""

import re
from collections.abc import Mapping
from typing import Any

from perdure.base.errors import Refused
from perdure.graph.diagnostics import Diagnostic, error
from perdure.graph.model import Attributes, Graph

_NAME = re.compile(r"\$(\$|[A-Za-z_][A-Za-z0-9_]*)")

_SCRIPTS = ("script", "tool_hooks.pre", "tool_hooks.post")
_HARMLESS = re.compile(r"[\w .,:/@%+=-]*")

_GOAL_MARK = "\ue000goal\ue001"


class UnknownVariable(Refused):
    """A name that nothing gives a value."""

    code = "unknown_variable"


def expand_graph(graph: Graph, variables: Mapping[str, str]) -> list[Diagnostic]:
    """`$name` replaced in every attribute of a graph; `$goal` waits, `$$` is `$`. What cannot be replaced is found.

    Only graphs with variables are treated: without any, `$` is left to scripts. A value never becomes part of a shell's
    text: a script gets it as a shell variable of that name.
    """
    if not variables:
        return []
    found: list[Diagnostic] = []
    holders: list[Attributes] = [graph, *graph.nodes.values(), *graph.edges]
    for holder in holders:
        for key, value in holder.attrs.items():
            if not isinstance(value, str) or "$" not in value:
                continue
            try:
                holder.attrs[key] = _expanded(key, value, holder, variables)
            except UnknownVariable as problem:
                node_id, line = getattr(holder, "id", None), getattr(holder, "line", None)
                found.append(
                    error("unknown_variable", f"{key}: {problem.message}", fix=problem.hint, node_id=node_id, line=line)
                )
    return found


def _expanded(key: str, text: str, holder: Attributes, variables: Mapping[str, str]) -> str:
    if key not in _SCRIPTS or text.startswith("@"):
        return expand_text(text, variables)
    if key == "script" and holder.text("language") == "python":
        used = {name: variables[name] for name in _names(text) if name in variables}
        for name, value in used.items():
            if not _HARMLESS.fullmatch(value):
                raise UnknownVariable(
                    f"the value of ${name} cannot stand in a Python script.", hint="Read it from the environment."
                )
        return expand_text(text, variables)
    return _shell(text, variables)


def expand_text(text: str, variables: Mapping[str, str]) -> str:
    """`$name` replaced in a text. Raises `UnknownVariable`."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name == "$":
            return "$"
        return found[0] if name == "goal" else variables[_known(name, variables)]

    return _NAME.sub(value, text)


def _shell(text: str, variables: Mapping[str, str]) -> str:
    """A shell script whose first lines give its variables their values; the shell fills them in."""
    import shlex

    used = [_known(name, variables) for name in _names(text) if name != "goal"]
    lines = [f"{name}={shlex.quote(variables[name])}" for name in dict.fromkeys(used)]
    return "\n".join([*lines, _NAME.sub(lambda found: "$" if found[1] == "$" else found[0], text)])


def _names(text: str) -> list[str]:
    return [name for name in _NAME.findall(text) if name != "$"]


def _known(name: str, variables: Mapping[str, str]) -> str:
    if name not in variables:
        known = ", ".join(sorted(variables))
        raise UnknownVariable(f"${name} has no value.", hint=f"Known: {known}. Write $${name} for '$'.")
    return name


def expand_goal(text: str, goal: str) -> str:
    """`$goal` filled in."""
    return text.replace("$goal", goal) if "$goal" in text else text


def render(
    text: str, *, goal: str, inputs: Mapping[str, Any], variables: Mapping[str, Any], context: Mapping[str, Any]
) -> str:
    """`{{ goal }}`, `{{ inputs.k }}`, `{{ vars.k }}`, `{{ context.k }}` filled in; a text without `{{` or `{%` stays.

    Raises `UnknownVariable` for a name that has no value, and for a template that cannot be read."""
    if "{{" not in text and "{%" not in text:
        return expand_goal(text, goal)
    import minijinja

    environment = minijinja.Environment(undefined_behavior="strict", fuel=200_000)
    values = {"goal": goal, "inputs": dict(inputs), "vars": dict(variables), "context": dict(context)}
    try:
        # The goal goes in afterwards: it is a person's text and never a template.
        filled = environment.render_str(text.replace("$goal", _GOAL_MARK), **values)
    except minijinja.TemplateError as error:
        raise UnknownVariable(f"A template cannot be filled in: {str(error).splitlines()[0]}.") from error
    return filled.replace(_GOAL_MARK, goal)
