"""Drawings of graphs: nodes as boxes in rows, each below those that it waits for, and edges as arrows.

What it is   `graph_picture`. A graph inside a node is drawn in a frame at the right of the row of its node.
What not     no layout that avoids crossings: a row has the order in which its nodes were added.
Read next    svg.py
"""

from __future__ import annotations

from .svg import EDGE, QUIET, Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["graph_picture"]

_MOST = 120  # nodes that are drawn
_HIGH, _GAP, _ROW = 40.0, 22.0, 84.0
_FILLS = {
    "kernel": "#bfe3c6",
    "copy": "#cfe0f5",
    "fill": "#e4e0f4",
    "callback": "#fbdcd3",
    "graph": "#ffe9b0",
    "conditional": "#ffe9b0",
    "allocation": "#dff1f1",
    "free": "#dff1f1",
}


def graph_picture(graph: Any) -> str:
    """Draw the nodes and edges of a graph, and of the graphs inside its nodes."""
    sheet = Sheet("a graph: what is launched as a whole")
    nodes = graph.nodes
    sheet.text(0, 14, f"A graph of {len(nodes)} node{'' if len(nodes) == 1 else 's'}", size=15, bold=True)
    sheet.text(0, 33, "An arrow leads from a node to one that waits for it.", colour=QUIET)
    left = [_MOST]
    _draw(sheet, graph, 0, 56, left)
    if left[0] < 0:
        sheet.text(0, sheet.height + 18, f"{-left[0]} more nodes are not drawn.", colour=QUIET)
    return sheet.render()


def _rows(nodes: list[Any], before: dict[Any, list[Any]]) -> list[list[Any]]:
    """Return rows of nodes, by the length of the longest path to each; a row is in the order of adding."""
    depth: dict[Any, int] = {}
    waiting = list(nodes)
    while waiting:
        ready = [node for node in waiting if all(other in depth for other in before[node])]
        for node in ready:
            depth[node] = 1 + max([depth[other] for other in before[node]], default=-1)
        waiting = [node for node in waiting if node not in depth]
        if not ready:  # a cycle, which other software has made
            depth.update(dict.fromkeys(waiting, 0))
            waiting = []
    rows: list[list[Any]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        rows[depth[node]].append(node)
    return rows


def _inside(node: Any) -> list[tuple[str, Any]]:
    """Return the graphs in a node, with their names."""
    if node.kind == "graph":
        return [("child graph", node.child)]
    if node.kind != "conditional":
        return []
    try:
        branches = node.branches
    except TypeError:  # added by other code
        return []
    words = {"if": ("if not 0", "if 0"), "while": ("while not 0",)}.get(node.form)
    return [(words[number] if words else f"if {number}", graph) for number, graph in enumerate(branches)]


def _wide(node: Any) -> float:
    return 24 + 6.4 * max(len(node.kind), min(len(node.label), 34), 6)


def _draw(sheet: Sheet, graph: Any, x: float, y: float, left: list[int]) -> tuple[float, float]:
    """Draw a graph at a place; return its width and height.

    left  how many nodes may still be drawn
    """
    nodes = graph.nodes
    shown = nodes[: max(left[0], 0)]
    left[0] -= len(nodes)
    before = {node: [other for other in node.pred if other in shown] for node in shown}
    places: dict[Any, tuple[float, float, float]] = {}
    right, top = x, y
    for row in _rows(shown, before):
        at, high = x, _ROW
        for node in row:
            places[node] = at, y, _wide(node)
            at += _wide(node) + _GAP
        for node in row:
            for words, inner in _inside(node):
                wide, deep = _draw(sheet, inner, at + 12, y + 22, left)
                sheet.rect(at, y, wide + 24, deep + 30, line=EDGE, dash="4 3")
                sheet.text(at + 8, y + 14, f"{node.number}: {words}", size=10, colour=QUIET)
                start = places[node]
                sheet.path(f"M{start[0] + start[2]:.1f},{y + _HIGH / 2:.1f} H{at:.1f}", line=EDGE, dash="2 3")
                at, high = at + wide + 24 + _GAP, max(high, deep + 30 + _ROW - _HIGH)
        right, y = max(right, at - _GAP), y + high
    for node, others in before.items():
        for other in others:
            _edge(sheet, places[other], places[node])
    for number, node in enumerate(shown):
        _box(sheet, node, number, places[node])
    return max(right - x, 60.0), max(y - top - (_ROW - _HIGH), 24.0)


def _edge(sheet: Sheet, start: tuple[float, float, float], end: tuple[float, float, float]) -> None:
    x, y = start[0] + start[2] / 2, start[1] + _HIGH
    to, bottom = end[0] + end[2] / 2, end[1] - 2
    middle = (y + bottom) / 2
    sheet.path(f"M{x:.1f},{y:.1f} C{x:.1f},{middle:.1f} {to:.1f},{middle:.1f} {to:.1f},{bottom:.1f}", arrow=True)


def _box(sheet: Sheet, node: Any, number: int, place: tuple[float, float, float]) -> None:
    x, y, wide = place
    if len(node.label) <= 34:
        label = node.label
    else:
        label = node.label[:33] + "…"
    sheet.rect(x, y, wide, _HIGH, _FILLS.get(node.kind, "#ffffff"), tip=repr(node))
    sheet.text(x + wide / 2, y + 16, f"{number} {node.kind}", size=10, anchor="middle", colour=QUIET)
    sheet.text(x + wide / 2, y + 31, label, size=11, anchor="middle", mono=True)
