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
_ENDS = ("}", ";")


def parse(source: str) -> tuple[Tree | None, list[Diagnostic]]:
    """The tree and every syntax error. The tree is None when there is no graph at all."""
    found: list[Diagnostic] = []
    places = Places(source)
    tokens = tokenize(source, places, found)
    parser = _Parser(tokens, places, found)
    tree = parser.graph()
    found.sort(key=lambda each: (each.line or 0, each.column or 0))
    return tree, found


class _Stop(Exception):
    """This statement cannot be read further."""


class _Parser:
    def __init__(self, tokens: list[Token], places: Places, found: list[Diagnostic]) -> None:
        self._tokens = tokens
        self._at = 0
        self._places = places
        self._found = found

    # Tokens

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _next(self) -> Token:
        token = self._peek()
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _is(self, text: str) -> bool:
        token = self._peek()
        return token.kind not in ("string", "end") and token.text == text

    def _take(self, text: str) -> bool:
        if self._is(text):
            self._next()
            return True
        return False

    def _is_keyword(self, word: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token.kind == "word" and token.text.lower() == word

    def _complain(self, message: str, token: Token | None = None, fix: str | None = None) -> None:
        line, column = self._places.line_column((token or self._peek()).offset)
        self._found.append(error("syntax", message, fix=fix, line=line, column=column))

    def _shown(self) -> str:
        token = self._peek()
        return "the end of the file" if token.kind == "end" else repr(token.text[:40])

    # The file

    def graph(self) -> Tree | None:
        if self._is_keyword("strict"):
            self._complain("'strict' graphs are not supported.", fix="Remove 'strict'.")
            self._next()
        if self._is_keyword("graph") and not self._is_keyword("digraph"):
            self._complain("undirected graphs are not supported.", fix="Write 'digraph'.")
            self._next()
        elif self._is_keyword("digraph"):
            self._next()
        else:
            self._complain(f"a graph file begins with 'digraph NAME {{'; here is {self._shown()}.")
            return None
        name = self._name()
        if not self._take("{"):
            self._complain(f"'{{' is missing after the graph's name; here is {self._shown()}.")
            return None
        statements = self._statements(0)
        if not self._take("}"):
            self._complain("the graph has no end: '}' is missing.")
        elif self._is_keyword("digraph") or self._is_keyword("graph") or self._is_keyword("strict"):
            self._complain("a file holds one graph; here begins another.", fix="Put it into a file of its own.")
        elif self._peek().kind != "end":
            self._complain(f"after the graph's end there is {self._shown()}.")
        return Tree(name, statements)

    def _name(self) -> str:
        if self._peek().kind in ("word", "string"):
            return self._next().text
        self._complain("the graph has no name.", fix="Write 'digraph NAME {'.")
        return ""

    def _statements(self, depth: int) -> list[Statement]:
        statements: list[Statement] = []
        while self._peek().kind != "end" and not self._is("}"):
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
        while self._peek().kind != "end":
            if depth == 0 and (self._peek().text in _ENDS or self._line() > line):
                return
            token = self._next()
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.text if token.kind == "punctuation" else "", 0)
            depth = max(depth, 0)

    def _line(self) -> int:
        return self._places.line_column(self._peek().offset)[0]

    # Statements

    def _statement(self, depth: int) -> Statement:
        for word in ("graph", "node", "edge"):
            if self._is_keyword(word) and self._peek(1).text == "[":
                self._next()
                attributes = self._attribute_lists()
                return GraphAttributes(attributes) if word == "graph" else Defaults(word, attributes)
        if self._is_keyword("subgraph") or self._is("{"):
            start = self._peek()
            group = self._subgraph(depth)
            if self._is("->"):
                return self._edges([_ids(group)], start)
            return group
        token = self._peek()
        if token.kind not in ("word", "string"):
            self._complain(f"a statement cannot begin with {self._shown()}.")
            raise _Stop
        if self._peek(1).kind == "punctuation" and self._peek(1).text == "=":
            return GraphAttributes([self._attribute()], is_declaration=True)
        start = self._peek()
        first = [self._node_id()]
        if self._is("->") or self._is("--"):
            return self._edges([first], start)
        return NodeStatement(first[0], self._attribute_lists(), start.offset)

    def _edges(self, ends: list[list[str]], start: Token) -> EdgeStatement:
        while self._is("->") or self._is("--"):
            if self._is("--"):
                self._complain("'--' joins nodes of undirected graphs.", fix="Write '->'.")
            self._next()
            if self._is("{") or self._is_keyword("subgraph"):
                ends.append(_ids(self._subgraph(1)))
            elif self._peek().kind in ("word", "string"):
                ends.append([self._node_id()])
            else:
                self._complain(f"an edge needs a target; here is {self._shown()}.")
                raise _Stop
        return EdgeStatement(ends, self._attribute_lists(), start.offset)

    def _node_id(self) -> str:
        token = self._next()
        if self._take(":"):
            # A port: Graphviz draws with it, here it has no meaning.
            self._next()
            if self._take(":"):
                self._next()
        return token.text

    def _subgraph(self, depth: int) -> Subgraph:
        start = self._peek()
        if depth >= MAX_DEPTH:
            self._complain(f"subgraphs are nested deeper than {MAX_DEPTH}.")
            raise _Stop
        name = None
        if self._is_keyword("subgraph"):
            self._next()
            if self._peek().kind in ("word", "string"):
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
        attributes: list[Attribute] = []
        while self._is("["):
            opening = self._next()
            while not self._take("]"):
                if self._take(",") or self._take(";"):
                    continue
                if self._peek().kind == "end" or self._is("}") or self._is("{"):
                    self._complain("this list of attributes has no end: ']' is missing.", opening)
                    raise _Stop
                attributes.append(self._attribute())
        return attributes

    def _attribute(self) -> Attribute:
        token = self._peek()
        if token.kind not in ("word", "string"):
            self._complain(f"an attribute's name is missing; here is {self._shown()}.")
            raise _Stop
        self._next()
        if not self._take("="):
            self._complain(f"attribute {token.text!r} needs '=' and a value; here is {self._shown()}.")
            raise _Stop
        value = self._peek()
        if value.kind == "string":
            self._next()
            return Attribute(token.text, value.text, token.offset)
        if value.kind == "word":
            self._next()
            return Attribute(token.text, word_value(value.text), token.offset)
        self._complain(f"attribute {token.text!r} needs a value; here is {self._shown()}.")
        raise _Stop


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
