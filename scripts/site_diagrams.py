"""MkDocs hook: flowcharts in Mermaid become inline SVG, since Mermaid itself would be loaded from the network.

It reads what the documentation uses: `flowchart TD` or `LR`, boxes `name["label"]`, and arrows `a --> b --> c`.
"""

import html
import re
from itertools import pairwise
from typing import Any

import networkx as nx

FENCE = re.compile(r"^```mermaid\nflowchart (?P<direction>TD|LR)\n(?P<lines>.*?)^```", re.MULTILINE | re.DOTALL)
BOX = re.compile(r'(?P<name>\w+)\["(?P<label>[^"]*)"\]')
WIDTH, HEIGHT = 220, 62  # of a box, in pixels
GAP = {"TD": (24, 30), "LR": (44, 18)}  # between boxes beside and below one another
BULGE = 26  # how far an arrow that skips a row swings out, for each row

Place = tuple[float, float]  # upper left corner of a box


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Draw the flowcharts of a page."""
    return FENCE.sub(lambda found: draw(found["direction"], found["lines"].splitlines()), markdown)


def draw(direction: str, lines: list[str]) -> str:
    """A flowchart as SVG.

    Raises:
        ValueError: a line is neither a box nor arrows between boxes.
    """
    labels, arrows = parse(lines)
    places = arrange(direction, list(labels), arrows)
    skips = [_skip(direction, places[one], places[other]) for one, other in arrows]
    swing = BULGE * max(skips) * 0.75  # as far as the widest curve gets
    width = max(x for x, _ in places.values()) + WIDTH + (swing if direction == "TD" else 0)
    height = max(y for _, y in places.values()) + HEIGHT + (swing if direction == "LR" else 0)
    shapes = [_arrow(direction, places[a], places[b]) for a, b in arrows]
    shapes += [_box(*places[name], label) for name, label in labels.items()]
    text = html.escape("; ".join(re.sub("<[^>]+>", " ", label) for label in labels.values()))
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return (
        f'<div class="flowchart"><svg role="img" aria-label="{text}" viewBox="-4 -4 {width + 8:g} {height + 8:g}" '
        f'width="{width + 8:g}"><defs>{tip}<path d="M0 0L8 4L0 8z"/></marker></defs>{"".join(shapes)}</svg></div>'
    )


def parse(lines: list[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Labels by name, and arrows."""
    labels: dict[str, str] = {}
    arrows: list[tuple[str, str]] = []
    for line in filter(None, map(str.strip, lines)):
        if box := BOX.fullmatch(line):
            labels[box["name"]] = box["label"]
            continue
        chain = [name.strip() for name in line.split("-->")]
        if len(chain) < 2 or not labels.keys() >= set(chain):
            raise ValueError(f"{line!r}: neither a box nor arrows between boxes that stand above it")
        arrows += pairwise(chain)
    return labels, arrows


def arrange(direction: str, names: list[str], arrows: list[tuple[str, str]]) -> dict[str, Place]:
    """Put each box behind all that lead to it, and centre the boxes of a row."""
    rows = _rows(names, arrows)
    most = max(sum(row == other for _, other in rows.values()) for _, row in rows.values())
    places = {}
    for name, (place, row) in rows.items():
        count = sum(row == other for _, other in rows.values())
        across, along = (most - count) / 2 + place, row
        column, line = (across, along) if direction == "TD" else (along, across)
        places[name] = (column * (WIDTH + GAP[direction][0]), line * (HEIGHT + GAP[direction][1]))
    return places


def _rows(names: list[str], arrows: list[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Name -> its place in its row, and the row: the longest way to it."""
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(arrows)
    rows: dict[str, tuple[int, int]] = {}
    for number, row in enumerate(nx.topological_generations(graph)):
        rows |= {name: (place, number) for place, name in enumerate(sorted(row, key=names.index))}
    return rows


def _skip(direction: str, start: Place, end: Place) -> int:
    """How many rows an arrow goes on, if it has to pass boxes between them in its own line; else 0."""
    across, along = (0, 1) if direction == "TD" else (1, 0)
    step = (HEIGHT if direction == "TD" else WIDTH) + GAP[direction][along]
    rows = round((end[along] - start[along]) / step)
    return rows if rows > 1 and start[across] == end[across] else 0


def _arrow(direction: str, start: Place, end: Place) -> str:
    """From one box to another: straight on, or past the boxes between them."""
    down = direction == "TD"
    if rows := _skip(direction, start, end):
        one, two = (_outside(down, place) for place in (start, end))
        dx, dy = (BULGE * rows, 0) if down else (0, BULGE * rows)
        bent = (one[0] + dx, one[1] + dy), (two[0] + dx, two[1] + dy)
    else:
        one, two = _sides(down, start, end)
        dx, dy = (0.0, (two[1] - one[1]) / 2) if down else ((two[0] - one[0]) / 2, 0.0)
        bent = (one[0] + dx, one[1] + dy), (two[0] - dx, two[1] - dy)
    points = " ".join(f"{x:g} {y:g}" for x, y in (*bent, two))
    return f'<path d="M{one[0]:g} {one[1]:g}C{points}" marker-end="url(#tip)"/>'


def _outside(down: bool, place: Place) -> Place:
    """The middle of the side of a box past which arrows swing."""
    return (place[0] + WIDTH, place[1] + HEIGHT / 2) if down else (place[0] + WIDTH / 2, place[1] + HEIGHT)


def _sides(down: bool, start: Place, end: Place) -> tuple[Place, Place]:
    """The middle of the side that an arrow leaves, and of the side that it reaches."""
    if down:
        return (start[0] + WIDTH / 2, start[1] + HEIGHT), (end[0] + WIDTH / 2, end[1])
    return (start[0] + WIDTH, start[1] + HEIGHT / 2), (end[0], end[1] + HEIGHT / 2)


def _box(x: float, y: float, label: str) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}"'
    text = f'<div xmlns="http://www.w3.org/1999/xhtml" class="label"><span>{label}</span></div>'
    return f'<rect {place} rx="6"/><foreignObject {place}>{text}</foreignObject>'
