"""Variables in a graph's text: `$name` and, in later files, `{{ inputs.name }}`. A goal is never taken for a template."""

import re
from collections.abc import Mapping
from typing import Any

from perdure.base.errors import Refused

_NAME = re.compile(r"\$(\$|[A-Za-z_][A-Za-z0-9_]*)")

_GOAL_MARK = "\ue000goal\ue001"


class UnknownVariable(Refused):
    """A name that nothing gives a value."""

    code = "unknown_variable"


def expand_source(source: str, variables: Mapping[str, str]) -> str:
    """`$name` replaced in a whole file, before it is parsed; `$goal` waits, `$$` is `$`. Raises `UnknownVariable`.

    Only files with variables are treated: without any, `$` is left to scripts.
    """
    if not variables:
        return source

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name == "$":
            return "$"
        if name == "goal":
            return found[0]
        if name not in variables:
            line = source.count("\n", 0, found.start()) + 1
            known = ", ".join(sorted(variables))
            raise UnknownVariable(f"Line {line}: ${name} has no value.", hint=f"Known: {known}. Write $${name} for '$'.")
        return variables[name].replace("\\", "\\\\").replace('"', '\\"')

    return _NAME.sub(value, source)


def expand_goal(text: str, goal: str) -> str:
    """`$goal` filled in."""
    return text.replace("$goal", goal) if "$goal" in text else text


def render(text: str, *, goal: str, inputs: Mapping[str, Any], variables: Mapping[str, Any], context: Mapping[str, Any]) -> str:
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
