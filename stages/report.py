"""report: all results of a run as one HTML file, and the learning curves as a picture."""

import logging

from gnn_encoder.core.storage.atomic import write_text
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.presenting.learning_curves import draw_training
from gnn_encoder.presenting.page import render
from gnn_encoder.presenting.stored import histories


def main(stage: Stage) -> None:
    """Render the page from the artifacts that exist."""
    page = render(load_params())  # not stage.params: the page shows the whole of params.yaml
    write_text(stage.scratch / "index.html", page)
    draw_training(stage.plots / "training.png", histories())
    logging.getLogger(__name__).info("report: %.1f MB", len(page.encode()) / 1e6)


if __name__ == "__main__":
    run(main)
