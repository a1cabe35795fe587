"""A matplotlib picture as SVG inside a page: in the page's text colour, and with equal bytes for equal pictures."""

import io
import re
from typing import Any

from markupsafe import Markup

from gnn_encoder.presenting.figure import Panel
from gnn_encoder.presenting.looks import STYLE, legend_below

SCALE = 1.3  # of pictures, if the page is wide enough
INK = "#0a0b0c"  # placeholder for the page's text colour; no picture may use it for anything else
COORDINATES = re.compile(r'(?<= )(d|x|y|x1|x2|y1|y2|points|width|height)="([^"]+)"')
NUMBER = re.compile(r"-?\d+\.\d+")


def as_svg(panel: Panel) -> Markup:
    """The panel as an inline SVG, with a legend below if it has labels."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_style()):
        figure = Figure(figsize=panel.size, layout="constrained")
        FigureCanvasSVG(figure)
        panel.paint(figure.subplots())
        legend_below(figure)
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    return _inline(buffer.getvalue(), panel.name, panel.title)


def _style() -> dict[Any, Any]:
    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
    own = {
        "grid.color": INK,
        "svg.fonttype": "none",
        "svg.hashsalt": "report",
    }  # without a salt ids are drawn at random
    return STYLE | dict.fromkeys(ink, INK) | own


def _inline(svg: str, name: str, title: str) -> Markup:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.S)
    svg = re.sub(r'(?<=<g) id="[^"]*"|font-family: [^;"]*; |transform="rotate\(-0 [^"]*"', "", svg)  # the page's font
    # Ids must be unique in the page, not only in the picture.
    svg = re.sub(r'(?<= id=")', f"{name}-", svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    svg = svg.replace(INK, "currentColor")
    svg = COORDINATES.sub(lambda found: f'{found[1]}="{NUMBER.sub(_rounded, found[2])}"', svg)
    svg = re.sub(r"\s+", " ", svg).replace("> <", "><")
    view = re.search(r'viewBox="0 0 ([\d.]+) [\d.]+"', svg)
    assert view, "matplotlib writes a viewBox"
    width = f"{SCALE * float(view[1]):.0f}"
    start = Markup('<svg class="plot" role="img" aria-label="{}" {} width="{}">').format(title, Markup(view[0]), width)
    return start + Markup(svg[svg.index(">") + 1 :].strip())


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"
