"""The pipeline as SVG: one frame per lane, in it stages from top to bottom, and arrows to the stages that need them."""

from collections import defaultdict
from dataclasses import dataclass

from markupsafe import Markup

from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.lanes import SHARED, TOGETHER, Box, Drawing, lane_title

# All in pixels.
WIDTH, HEIGHT = 156, 40  # of a box
GAP, DROP = 12, 28  # between boxes side by side, and between boxes one below another
PAD, TITLE = 12, 24  # margin inside a frame, and height of its title
BETWEEN = 34  # between frames
LETTER = 7.8  # width of a letter of a title


@dataclass(frozen=True)
class Frame:
    """The frame of a lane: its upper left corner and its size."""

    lane: str
    x: float
    y: float
    width: float
    height: float


Columns = dict[str, list[list[Box]]]  # lane -> its boxes from top to bottom


def draw_dag(drawing: Drawing) -> Markup:
    """The drawing as an inline SVG. A box shows the names of its systems when the pointer is over it."""
    rows = _rows(drawing)
    frames, width, height = _frames(rows)
    places = _places(rows, frames)
    parts = [
        Markup('<svg class="dag" role="img" aria-label="The stages of the pipeline and what they need" ')
        + Markup('viewBox="0 0 {0:g} {1:g}" width="{0:g}" height="{1:g}">').format(width, height),
        Markup('<defs><marker id="dag-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" ')
        + Markup('orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'),
        *map(_frame, frames),
        *(_arrow(places[a], places[b], inside=a.lane == b.lane) for a, b in drawing.arrows),
        *(_box(box, *places[box]) for box in drawing.boxes),
        Markup("</svg>"),
    ]
    return Markup("").join(parts)


def _rows(drawing: Drawing) -> Columns:
    """The rows of each lane: a box stands in the row given by the length of the longest path to it inside its lane."""
    before = defaultdict(list)
    for a, b in drawing.arrows:
        before[b].append(a)
    ranks: dict[Box, int] = {}

    def rank(box: Box) -> int:
        if box not in ranks:
            ranks[box] = 1 + max((rank(other) for other in before[box] if other.lane == box.lane), default=-1)
        return ranks[box]

    rows: Columns = defaultdict(list)
    for box in drawing.boxes:
        lane = rows[box.lane]
        lane += [[] for _ in range(rank(box) + 1 - len(lane))]
        lane[rank(box)].append(box)
    return rows


def _frames(rows: Columns) -> tuple[list[Frame], float, float]:
    """The frames of all lanes, and the width and height of the drawing.

    Frames stand in four bands, one below another: the shared stages, the branches, the branches that are built on
    another branch, and the stages that take all branches together.
    """
    own = registry().independent_branches
    built = [name for name in registry().branches if name not in own]
    bands = [[lane for lane in band if lane in rows] for band in ([SHARED], own, built, [TOGETHER])]
    sizes = {lane: _size(lane, boxes) for lane, boxes in rows.items()}
    widths = [sum(sizes[lane][0] for lane in band) + BETWEEN * (len(band) - 1) for band in bands]
    total, y, frames = max(widths), 0.0, []
    for band, width in zip(bands, widths, strict=True):
        x = (total - width) / 2
        for lane in band:
            frames.append(Frame(lane, x, y, *sizes[lane]))
            x += sizes[lane][0] + BETWEEN
        if band:
            y += max(sizes[lane][1] for lane in band) + BETWEEN
    return frames, total, y - BETWEEN


def _size(lane: str, rows: list[list[Box]]) -> tuple[float, float]:
    most = max(map(len, rows))
    width = max(most * WIDTH + (most - 1) * GAP, LETTER * len(lane_title(lane))) + 2 * PAD
    return width, TITLE + len(rows) * HEIGHT + (len(rows) - 1) * DROP + 2 * PAD


def _places(rows: Columns, frames: list[Frame]) -> dict[Box, tuple[float, float]]:
    """The upper left corner of every box; rows are centred in their frame."""
    places: dict[Box, tuple[float, float]] = {}
    for frame in frames:
        for depth, row in enumerate(rows[frame.lane]):
            width = len(row) * WIDTH + (len(row) - 1) * GAP
            left, top = frame.x + (frame.width - width) / 2, frame.y + TITLE + PAD + depth * (HEIGHT + DROP)
            places |= {box: (left + place * (WIDTH + GAP), top) for place, box in enumerate(row)}
    return places


def _frame(frame: Frame) -> Markup:
    return Markup(
        '<g class="frame"><rect x="{0:g}" y="{1:g}" width="{2:g}" height="{3:g}" rx="10"/>'
        '<text x="{4:g}" y="{5:g}">{6}</text></g>'
    ).format(frame.x, frame.y, frame.width, frame.height, frame.x + PAD, frame.y + TITLE - 4, lane_title(frame.lane))


def _arrow(start: tuple[float, float], end: tuple[float, float], *, inside: bool) -> Markup:
    x1, y1, x2, y2 = start[0] + WIDTH / 2, start[1] + HEIGHT, end[0] + WIDTH / 2, end[1] - 1
    bend = max(DROP, abs(y2 - y1) / 2)
    return Markup(
        '<path class="arrow{}" d="M{:g} {:g}C{:g} {:g} {:g} {:g} {:g} {:g}" marker-end="url(#dag-tip)"/>'
    ).format("" if inside else " far", x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2)


def _box(box: Box, x: float, y: float) -> Markup:
    systems = [stage.system for stage in box.stages if stage.system]
    below = ", ".join(systems) if len(", ".join(systems)) <= 24 else f"{len(systems)} systems"
    middle = x + WIDTH / 2
    lines = Markup('<text x="{:g}" y="{:g}">{}</text>').format(middle, y + (17 if systems else 25), box.name)
    if systems:
        lines += Markup('<text class="small" x="{:g}" y="{:g}">{}</text>').format(middle, y + 32, below)
    title = Markup("<title>{}</title>").format(f"{box.name}: {', '.join(systems)}" if systems else box.name)
    shape = Markup('<rect x="{:g}" y="{:g}" width="{:g}" height="{:g}" rx="6"/>').format(x, y, WIDTH, HEIGHT)
    return Markup('<g class="stage">') + title + shape + lines + Markup("</g>")
