"""views_curve SYSTEM: dev measures, index size and search time against the number of views per passage."""

from gnn_encoder.dual_cross.curve import curve
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.presenting.branch_figures import views_panels, views_table
from gnn_encoder.presenting.figures import write_png
from gnn_encoder.presenting.tables import log_tables


def main(stage: Stage) -> None:
    """Evaluate with the first view of each passage, with the first two, and so on; write the table and its figure."""
    (drawn,) = parse([stage.params.evaluate.significance], "evaluate.significance")
    found = curve(stage.key, stage.params, stage.work)
    log_tables([views_table(found)])
    found.write_csv(stage.scratch / "curve.csv")
    write_png(stage.plots / "views.png", views_panels(found, drawn))
    found.write_csv(stage.plots / "views.csv")


if __name__ == "__main__":
    run(main)
