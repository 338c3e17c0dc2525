"""Drawing a graph: SVG by a small layout of its own; PNG and PDF by Graphviz where it is installed."""

from __future__ import annotations

import subprocess
from html import escape
from shutil import which

from perdure.base.errors import EnvironmentFault, Refused
from perdure.graph.model import Graph, Node, as_text

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN, _LABEL_X = 150, 46, 50, 64, 24, 80
_FILL = {
    "start": "#d7f0d7", "exit": "#d7f0d7", "agent": "#dce8fb", "prompt": "#dce8fb", "command": "#f3f3f3",
    "human": "#fdeccb", "conditional": "#f6e3f6", "parallel": "#e4e0f7", "parallel.fan_in": "#e4e0f7", "wait": "#eee",
    "stack.manager_loop": "#e2f3f5",
}  # fmt: skip


def draw(graph: Graph, form: str, direction: str | None = None) -> bytes:
    """The drawing as `svg`, `dot`, `png` or `pdf`; `direction` is `lr` or `tb`. Raises `EnvironmentFault` without Graphviz."""
    across = (direction or graph.text("rankdir")).lower() in ("lr", "rl")
    if form == "svg":
        return to_svg(graph, across=across).encode()
    text = to_dot(graph, across=across)
    if form == "dot":
        return text.encode()
    if which("dot") is None:
        raise EnvironmentFault(f"Graphviz is not installed, so there is no {form}.", hint="Install it, or draw an SVG.")
    done = subprocess.run(["dot", f"-T{form}"], input=text.encode(), capture_output=True, check=False)  # noqa: S603, S607
    if done.returncode != 0:
        raise Refused(f"Graphviz could not draw it: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def ranks_of(graph: Graph) -> dict[str, int]:
    """How far each node is from the start, loops left out; nodes that cannot be reached come first."""
    starts = [node.id for node in graph.by_handler("start")] or list(graph.nodes)[:1]
    back = _back_edges(graph, starts)
    ranks = dict.fromkeys(graph.nodes, 0)
    forward = [
        (e.source, e.target)
        for e in graph.edges
        if (e.source, e.target) not in back and e.target in ranks and e.source in ranks
    ]
    for _ in range(len(ranks)):
        changed = False
        for source, target in forward:
            if ranks[target] < ranks[source] + 1:
                ranks[target] = ranks[source] + 1
                changed = True
        if not changed:
            break
    return ranks


def _back_edges(graph: Graph, starts: list[str]) -> set[tuple[str, str]]:
    """Edges that close a loop, seen from the start."""
    ways: dict[str, list[str]] = {}
    for edge in graph.edges:
        ways.setdefault(edge.source, []).append(edge.target)
    back: set[tuple[str, str]] = set()
    done: set[str] = set()
    for start in [*starts, *graph.nodes]:
        if start in done:
            continue
        path = {start: None}
        stack = [(start, iter(ways.get(start, ())))]
        while stack:
            node, rest = stack[-1]
            target = next(rest, None)
            if target is None:
                stack.pop()
                path.pop(node, None)
                done.add(node)
            elif target in path:
                back.add((node, target))
            elif target not in done:
                path[target] = None
                stack.append((target, iter(ways.get(target, ()))))
    return back


def to_svg(graph: Graph, *, across: bool) -> str:
    """The graph as SVG, rank by rank."""
    places = _places(graph, across=across)
    # Edges that go around need room: at the top and the bottom, or at both sides.
    room = 130
    places = {node: (x + (0 if across else room), y + (room if across else 0)) for node, (x, y) in places.items()}
    width = max((x for x, _y in places.values()), default=0) + _WIDTH + _MARGIN + (0 if across else room)
    height = max((y for _x, y in places.values()), default=0) + _HEIGHT + _MARGIN + (room if across else 0)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        (
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>'
        ),
        f"<title>{escape(graph.name)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for edge in graph.edges:
        if edge.source in places and edge.target in places:
            parts.append(_edge(places[edge.source], places[edge.target], edge.label or edge.condition, across=across))
    parts += [_box(node, *places[node.id]) for node in graph.nodes.values()]
    return "\n".join([*parts, "</svg>", ""])


def _places(graph: Graph, *, across: bool) -> dict[str, tuple[int, int]]:
    rows: dict[int, list[str]] = {}
    for node_id, rank in ranks_of(graph).items():
        rows.setdefault(rank, []).append(node_id)
    places = {}
    for rank, ids in rows.items():
        for number, node_id in enumerate(ids):
            along, aside = (rank, number) if across else (number, rank)
            x = _MARGIN + along * (_WIDTH + _GAP_X + (_LABEL_X if across else 0))
            places[node_id] = (x, _MARGIN + aside * (_HEIGHT + _GAP_Y))
    return places


def _edge(source: tuple[int, int], target: tuple[int, int], label: str, *, across: bool) -> str:
    """An edge as a curve: straight on to the next rank, in an arc around the boxes when it goes further or back."""
    (x1, y1), (x2, y2) = source, target
    half_w, half_h = _WIDTH // 2, _HEIGHT // 2
    if across:
        ahead, level = x2 - x1, y1 == y2
        start, end = (x1 + _WIDTH, y1 + half_h), (x2, y2 + half_h)
        bend = max(30, abs(end[0] - start[0]) // 2)
        first, second = (start[0] + bend, start[1]), (end[0] - bend, end[1])
        step = _WIDTH + _GAP_X + _LABEL_X
        if ahead <= 0 or (level and ahead > step):
            side, depth = (1, 0.12) if ahead <= 0 else (-1, 0.10)
            out = round(30 + abs(ahead) * depth)
            edge_y = _HEIGHT if side > 0 else 0
            start, end = (x1 + half_w, y1 + edge_y), (x2 + half_w, y2 + edge_y)
            first, second = (start[0], start[1] + side * out), (end[0], end[1] + side * out)
    else:
        ahead, level = y2 - y1, x1 == x2
        start, end = (x1 + half_w, y1 + _HEIGHT), (x2 + half_w, y2)
        bend = max(30, abs(end[1] - start[1]) // 2)
        first, second = (start[0], start[1] + bend), (end[0], end[1] - bend)
        if ahead <= 0 or (level and ahead > _HEIGHT + _GAP_Y):
            side = 1 if ahead <= 0 else -1
            out = round(40 + abs(ahead) * 0.12)
            edge_x = _WIDTH if side > 0 else 0
            start, end = (x1 + edge_x, y1 + half_h), (x2 + edge_x, y2 + half_h)
            first, second = (start[0] + side * out, start[1]), (end[0] + side * out, end[1])
    path = f"M{start[0]},{start[1]} C{first[0]},{first[1]} {second[0]},{second[1]} {end[0]},{end[1]}"
    text = ""
    if label:
        shown = label if len(label) <= 24 else f"{label[:23]}…"
        x = (start[0] + end[0] + 3 * (first[0] + second[0])) // 8
        y = (start[1] + end[1] + 3 * (first[1] + second[1])) // 8 - 4
        text = f'<text x="{x}" y="{y}" text-anchor="middle" fill="#555" font-size="10">{escape(shown)}</text>'
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#arrow)"/>{text}'


def _box(node: Node, x: int, y: int) -> str:
    label = node.label if len(node.label) <= 22 else f"{node.label[:21]}…"
    radius = 22 if node.handler in ("start", "exit") else 6
    fill = _FILL.get(node.handler, "#fff")
    return (
        f"<g><title>{escape(node.id)} ({escape(node.handler)})</title>"
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" fill="{fill}" stroke="#777"/>'
        f'<text x="{x + _WIDTH // 2}" y="{y + 20}" text-anchor="middle">{escape(label)}</text>'
        f'<text x="{x + _WIDTH // 2}" y="{y + 36}" text-anchor="middle" fill="#888" font-size="10">{escape(node.handler)}</text></g>'
    )


def to_dot(graph: Graph, *, across: bool) -> str:
    """The graph in plain DOT, every value quoted, so that Graphviz reads it too."""
    lines = [f"digraph {_quoted(graph.name)} {{", f"  rankdir={'LR' if across else 'TB'};"]
    for node in graph.nodes.values():
        attrs = {key: as_text(value) for key, value in node.attrs.items() if "." not in key}
        lines.append(f"  {_quoted(node.id)} [{_listed(attrs | {'label': node.label})}];")
    for edge in graph.edges:
        attrs = {key: as_text(value) for key, value in edge.attrs.items() if "." not in key}
        shown = f" [{_listed(attrs)}]" if attrs else ""
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)}{shown};")
    return "\n".join([*lines, "}", ""])


def _listed(attrs: dict[str, str]) -> str:
    return ", ".join(f"{_quoted(key)}={_quoted(value)}" for key, value in sorted(attrs.items()))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
