"""Stylesheets: `selector { property: value; }` rules that set model attributes of nodes.

Selectors, weakest first: `*`, a shape, `.class`, `#id`. Among equals the later rule wins. An attribute of the node itself always wins.
"""

import re
from collections.abc import Mapping

import msgspec

from perdure.base.errors import Refused
from perdure.graph.model import Node
from perdure.graph.names import renamed

PROPERTIES = ("model", "provider", "reasoning_effort", "speed", "backend")
_RULE = re.compile(r"\s*([^{}]+?)\s*\{([^{}]*)\}", re.DOTALL)


class BadStylesheet(Refused):
    """A stylesheet that cannot be read."""

    code = "bad_stylesheet"


class Rule(msgspec.Struct, frozen=True):
    """One rule: whom it concerns, and what it sets."""

    selector: str
    values: dict[str, str]

    @property
    def strength(self) -> int:
        """How much it beats: 0 for `*`, 3 for `#id`."""
        return {"*": 0, ".": 2, "#": 3}.get(self.selector[0], 1)

    def concerns(self, node: Node) -> bool:
        """Whether the node is meant."""
        if self.selector == "*":
            return True
        if self.selector.startswith("."):
            return self.selector[1:] in node.classes
        if self.selector.startswith("#"):
            return self.selector[1:] == node.id
        return self.selector.lower() == node.text("shape").lower()


def parse_stylesheet(text: str) -> list[Rule]:
    """The rules. Raises `BadStylesheet` at the first mistake."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    rules: list[Rule] = []
    at = 0
    while at < len(text.rstrip()):
        found = _RULE.match(text, at)
        if found is None:
            raise BadStylesheet(f"The stylesheet has no rule at {text[at : at + 30].strip()!r}.")
        for selector in found[1].split(","):
            rules.append(Rule(_selector(selector.strip()), _values(found[2])))
        at = found.end()
    return rules


def _selector(text: str) -> str:
    if text != "*" and not re.match(r"[.#]?[A-Za-z_][\w.\-]*\Z", text):
        raise BadStylesheet(f"The stylesheet has no such selector: {text!r}.")
    return text


def _values(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, found, value = part.partition(":")
        name, _ = renamed(key.strip(), "", "node")
        if not found or not value.strip():
            raise BadStylesheet(f"The stylesheet has no value at {part!r}.")
        if name not in PROPERTIES:
            raise BadStylesheet(f"A stylesheet cannot set {name!r}; it sets {', '.join(PROPERTIES)}.")
        values[name] = value.strip().strip("\"'")
    return values


def apply_stylesheet(nodes: Mapping[str, Node], rules: list[Rule]) -> None:
    """Set what the rules say where a node says nothing itself."""
    ordered = sorted(rules, key=lambda rule: rule.strength)
    for node in nodes.values():
        set_here: dict[str, str] = {}
        for rule in ordered:
            if rule.concerns(node):
                set_here |= rule.values
        for key, value in set_here.items():
            node.attrs.setdefault(key, value)
