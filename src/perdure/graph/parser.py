"""Text to tree: recursive descent that goes on after an error, so that one look shows every mistake."""

from perdure.graph.diagnostics import Diagnostic, error
from perdure.graph.lexer import Places, Token, tokenize
from perdure.graph.tree import (
    Attribute,
    Defaults,
    EdgeStatement,
    GraphAttributes,
    NodeStatement,
    Statement,
    Subgraph,
    Tree,
    word_value,
)

MAX_DEPTH = 50
_NAMES = ("word", "string")
_OPENING = {"[": 1, "{": 1, "]": -1, "}": -1}


def parse(source: str) -> tuple[Tree | None, list[Diagnostic]]:
    """The tree and every syntax error. The tree is None when there is no graph at all."""
    found: list[Diagnostic] = []
    places = Places(source)
    parser = _Parser(tokenize(source, places, found), places, found)
    tree = parser.graph()
    found.sort(key=lambda each: (each.line or 0, each.column or 0))
    return tree, found


class _Stop(Exception):
    """This statement cannot be read further."""


class _Parser:
    """One pass; `_now` is the token that comes next."""

    def __init__(self, tokens: list[Token], places: Places, found: list[Diagnostic]) -> None:
        self._tokens = tokens
        self._at = 0
        self._now = tokens[0]
        self._places = places
        self._found = found
        self._gave_up = False

    # Tokens

    def _next(self) -> Token:
        token = self._now
        if token.kind != "end":
            self._at += 1
            self._now = self._tokens[self._at]
        return token

    def _kind(self) -> str:
        return self._now.kind

    def _after(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _take(self, kind: str) -> bool:
        if self._kind() == kind:
            self._next()
            return True
        return False

    def _is_keyword(self, *words: str) -> bool:
        return self._kind() == "word" and self._now.text.lower() in words

    def _complain(self, message: str, token: Token | None = None, fix: str | None = None) -> None:
        if self._gave_up:
            return
        line, column = self._places.line_column((token or self._now).offset)
        self._found.append(error("syntax", message, fix=fix, line=line, column=column))

    def _give_up(self) -> None:
        """Read no further: what follows would only repeat the complaint."""
        self._at = len(self._tokens) - 1
        self._now = self._tokens[self._at]
        self._gave_up = True

    def _shown(self) -> str:
        return "the end of the file" if self._kind() == "end" else repr(self._now.text[:40])

    # The file

    def graph(self) -> Tree | None:
        if self._is_keyword("strict"):
            self._complain("'strict' graphs are not supported.", fix="Remove 'strict'.")
            self._next()
        if self._is_keyword("graph"):
            self._complain("undirected graphs are not supported.", fix="Write 'digraph'.")
        elif not self._is_keyword("digraph"):
            self._complain(f"a graph file begins with 'digraph NAME {{'; here is {self._shown()}.")
            return None
        self._next()
        name = self._name()
        if not self._take("{"):
            self._complain(f"'{{' is missing after the graph's name; here is {self._shown()}.")
            return None
        statements = self._statements(0)
        if not self._take("}"):
            self._complain("the graph has no end: '}' is missing.")
        elif self._is_keyword("digraph", "graph", "strict"):
            self._complain("a file holds one graph; here begins another.", fix="Put it into a file of its own.")
        elif self._kind() != "end":
            self._complain(f"after the graph's end there is {self._shown()}.")
        return Tree(name, statements)

    def _name(self) -> str:
        if self._kind() in _NAMES:
            return self._next().text
        self._complain("the graph has no name.", fix="Write 'digraph NAME {'.")
        return ""

    def _statements(self, depth: int) -> list[Statement]:
        statements: list[Statement] = []
        while self._kind() not in ("end", "}"):
            if self._take(";") or self._take(","):
                continue
            before = self._at
            try:
                statements.append(self._statement(depth))
            except _Stop:
                self._skip(before)
        return statements

    def _skip(self, before: int) -> None:
        """Go on behind what could not be read: at the next line, `;` or end of a block."""
        line = self._line()
        if self._at == before:
            self._next()
        depth = 0
        while self._kind() != "end":
            if depth <= 0 and (self._kind() in ("}", ";") or self._line() > line):
                return
            depth = max(depth + _OPENING.get(self._next().kind, 0), 0)

    def _line(self) -> int:
        return self._places.line_column(self._now.offset)[0]

    # Statements

    def _statement(self, depth: int) -> Statement:
        start = self._now
        if start.kind == "pair":
            return GraphAttributes([self._pair()], is_declaration=True)
        if start.kind == "{" or self._is_keyword("subgraph"):
            group = self._subgraph(depth)
            return self._edges([_ids(group)], start, depth) if self._kind() == "->" else group
        if start.kind not in _NAMES:
            self._complain(f"a statement cannot begin with {self._shown()}.")
            raise _Stop
        after = self._after().kind
        if after == "[" and self._is_keyword("graph", "node", "edge"):
            word = self._next().text.lower()
            attributes = self._attribute_lists()
            return GraphAttributes(attributes) if word == "graph" else Defaults(word, attributes)
        if after == "=":
            attribute = self._slow_attribute()
            if attribute is None:
                raise _Stop
            return GraphAttributes([attribute], is_declaration=True)
        first = self._node_id()
        if self._kind() in ("->", "--"):
            return self._edges([[first]], start, depth)
        return NodeStatement(first, self._attribute_lists(), start.offset)

    def _edges(self, ends: list[list[str]], start: Token, depth: int) -> EdgeStatement:
        while self._kind() in ("->", "--"):
            if self._kind() == "--":
                self._complain("'--' joins nodes of undirected graphs.", fix="Write '->'.")
            self._next()
            if self._kind() == "{" or self._is_keyword("subgraph"):
                ends.append(_ids(self._subgraph(depth)))
            elif self._kind() in _NAMES:
                ends.append([self._node_id()])
            else:
                self._complain(f"an edge needs a target; here is {self._shown()}.")
                raise _Stop
        return EdgeStatement(ends, self._attribute_lists(), start.offset)

    def _node_id(self) -> str:
        text = self._next().text
        # A port: Graphviz draws with it, here it has no meaning.
        for _port in range(2):
            if self._take(":"):
                self._next()
        return text

    def _subgraph(self, depth: int) -> Subgraph:
        start = self._now
        if depth >= MAX_DEPTH:
            self._complain(f"subgraphs are nested deeper than {MAX_DEPTH}.")
            self._give_up()
            raise _Stop
        name = None
        if self._is_keyword("subgraph"):
            self._next()
            if self._kind() in _NAMES:
                name = self._next().text
        if not self._take("{"):
            self._complain(f"a subgraph needs '{{'; here is {self._shown()}.")
            raise _Stop
        statements = self._statements(depth + 1)
        if not self._take("}"):
            self._complain("this subgraph has no end: '}' is missing.", start)
        return Subgraph(name, statements, start.offset)

    # Attributes

    def _attribute_lists(self) -> list[Attribute]:
        """All lists that follow. A mistake inside costs one attribute, never the statement."""
        attributes: list[Attribute] = []
        while self._kind() == "[":
            opening = self._next()
            while True:
                kind = self._kind()
                if kind == "pair":
                    attributes.append(self._pair())
                elif kind in (",", ";"):
                    self._next()
                elif kind == "]":
                    self._next()
                    break
                elif kind in ("end", "{", "}", "[", "->") or (kind in _NAMES and self._after().kind in ("[", "->")):
                    self._complain("this list of attributes has no end: ']' is missing.", opening)
                    return attributes
                else:
                    attribute = self._slow_attribute()
                    if attribute is not None:
                        attributes.append(attribute)
        return attributes

    def _pair(self) -> Attribute:
        token = self._next()
        value = token.value
        while self._kind() == "+" and self._after().kind == "string" and isinstance(value, str):
            self._next()
            value += self._next().text
        return Attribute(token.text, value, token.offset)

    def _slow_attribute(self) -> Attribute | None:
        """An attribute that is no pair: a comment stands inside, its name is quoted, or it is a mistake, which is told."""
        key = self._next()
        if key.kind not in _NAMES:
            self._complain(f"an attribute's name is missing; here is {key.text[:40]!r}.", key)
            return None
        if not self._take("="):
            self._complain(f"attribute {key.text!r} needs '=' and a value; here is {self._shown()}.")
            return None
        if self._kind() not in _NAMES:
            self._complain(f"attribute {key.text!r} needs a value; here is {self._shown()}.")
            return None
        token = self._next()
        value = token.text if token.kind == "string" else word_value(token.text)
        return Attribute(key.text, value, key.offset)


def _ids(group: Subgraph) -> list[str]:
    """The nodes that a group names, in their order, each once."""
    names: dict[str, None] = {}
    for statement in group.statements:
        if isinstance(statement, NodeStatement):
            names[statement.id] = None
        elif isinstance(statement, EdgeStatement):
            names.update(dict.fromkeys(name for end in statement.ends for name in end))
        elif isinstance(statement, Subgraph):
            names.update(dict.fromkeys(_ids(statement)))
    return list(names)
