"""views_curve: measures of the dev questions, index size and search time against the views a passage has."""

import json
import logging
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.arrays import read_manifest
from gnn_encoder.core.storage.atomic import publish_files, write_json
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.dual_cross.curve import Point, cost, quality
from gnn_encoder.encoders.corpus import embed_questions
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_queries
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.presenting.figure import write_png
from gnn_encoder.presenting.tables import titled
from gnn_encoder.presenting.views import views_panels, views_table

log = logging.getLogger(__name__)
EMBEDDINGS = project.embeddings("dual_cross")
MODEL = project.ENCODERS["dual_cross"]


def main() -> None:
    """Take the first view of each passage, the first two, and so on; write the table and its picture."""
    params = load_params()
    (drawn,) = parse([params.evaluate.significance], "evaluate.significance")
    inputs = [project.PASSAGES, project.queries("dev"), project.qrels("dev"), MODEL, EMBEDDINGS]
    sections = {
        "evaluate": params.evaluate,
        "retrieve": params.retrieve,
        "index": params.index,
        "precision": params.encoder.precision,
        "seed": params.seed,
    }
    with output(project.VIEWS_CURVE, inputs, sections) as scratch:
        if distributed.is_first():
            encoder = DualEncoder.load(MODEL, precision=params.encoder.precision).for_inference()
            tokens = open_queries(project.queries("dev"), encoder)
            questions = embed_questions(encoder, tokens, params.encoder.batch_tokens)
            counts = range(1, read_manifest(EMBEDDINGS).views + 1)
            curve = pl.DataFrame([point(views, questions, params, scratch / WORK) for views in counts])
            curve.write_csv(scratch / "curve.csv")
            log.info("%s", titled(views_table(curve)))
            plots = scratch / WORK / "plots"
            write_png(plots / "views.png", views_panels(curve, drawn))
            curve.write_csv(plots / "views.csv")
            publish_files(plots, project.PLOTS / "dual_cross")


def point(views: int, questions: NDArray[np.float32], params: Params, work: Path) -> Point:
    """One row of the curve, kept over a kill. *Shape:* questions (n, d)."""
    kept = work / f"views-{views}.json"
    measures = list(parse([*params.evaluate.measures, params.evaluate.significance]))

    def judge(found: pl.DataFrame) -> pl.DataFrame:
        return measure_split(found, "dev", measures, params.evaluate)

    if not kept.exists():
        measured = quality(
            EMBEDDINGS,
            questions,
            pl.Series(read_column(project.queries("dev"), "qid")),
            pl.Series(read_column(project.PASSAGES, "pid")),
            judge,
            views=views,
            depth=params.retrieve.depth,
        )
        spent = cost(
            EMBEDDINGS,
            questions,
            work,
            views=views,
            factory=params.index.factory,
            passages_table=project.PASSAGES,
            seed=params.seed,
        )
        write_json(kept, {"views": views, **measured, **spent})
    found: Point = json.loads(kept.read_text())
    return found


if __name__ == "__main__":
    run(main)
