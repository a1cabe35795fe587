"""views_curve SYSTEM: measures of the dev queries, index size and search time against the views a passage has."""

import logging

from gnn_encoder.core.stage import Stage, run
from gnn_encoder.dual_cross.curve import curve
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.report import draw_views


def main(stage: Stage) -> None:
    """Take the first view of each passage, the first two, and so on; write the table and its picture."""
    (drawn,) = parse([stage.params.evaluate.significance], "evaluate.significance")
    found = curve(stage.key, stage.params, stage.work)
    logging.getLogger(__name__).info("%s", found)
    found.write_csv(stage.scratch / "curve.csv")
    draw_views(stage.plots / "views.png", found, drawn)
    found.write_csv(stage.plots / "views.csv")


if __name__ == "__main__":
    run(main)
