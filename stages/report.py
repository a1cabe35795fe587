"""report: everything that a run has to show, as one HTML file, and the training curves as a picture."""

import logging

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import run
from gnn_encoder.core.storage.atomic import write_text
from gnn_encoder.presenting.page.render import render
from gnn_encoder.presenting.training import draw_training, histories

log = logging.getLogger(__name__)


def main() -> None:
    """Read the artifacts that are there and write the page."""
    page = render(load_params())
    write_text(project.REPORT, page)
    draw_training(project.PLOTS / "training.png", histories())
    log.info("%s: %.1f MB", project.REPORT, len(page.encode()) / 1e6)


if __name__ == "__main__":
    run(main)
