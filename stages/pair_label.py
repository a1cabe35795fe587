"""pair_label: pseudo-labels by M_ce or by `pair.teacher`, for all queries (PAIR, section 3.3, Table 5)."""

import logging
import shutil
from pathlib import Path
from typing import Any

from gnn_encoder.core import distributed
from gnn_encoder.core.records import EXAMPLES, TARGETS, UNLABELLED
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import count_rows, write_table
from gnn_encoder.pair.labelling import Labelling, label_labelled, label_unlabelled
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.training import train_cross_encoder

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Write what pre-training and fine-tuning learn from, and queries.parquet, the queries of pre-training."""
    params, queries = stage.params, project.queries("train")
    teacher = (
        stage.once("teacher", lambda folder: train(params, folder)) if params.pair.teacher else project.CROSS_ENCODER
    )
    labelled = label_labelled(params, teacher, stage.work / "labelled")
    _write(stage.scratch, "finetune", labelled)
    pretraining, quality = labelled, dict[str, Any]()
    if params.pair.pseudo_labels and count_rows(project.queries(UNLABELLED)):
        queries = project.queries(UNLABELLED)
        pretraining = label_unlabelled(queries, params, teacher, stage.work / "unlabelled")
        quality = pretraining.statistics
    elif params.pair.pseudo_labels:
        log.info(
            "there are no unlabelled queries: PAIR pre-trains on the labelled ones. Name a file of your own in "
            "data.unlabelled, or let data.train_queries leave some out for pair.unlabelled_fraction"
        )
    _write(stage.scratch, "pretrain", pretraining)
    if distributed.is_first():
        shutil.copyfile(queries, stage.scratch / "queries.parquet")
    write_json(stage.scratch / "statistics.json", {"unlabelled": quality, "labelled": labelled.statistics})


def train(params: Params, folder: Path) -> None:
    """Train a teacher of PAIR's own."""
    if params.pair.teacher is not None:
        train_cross_encoder(params.pair.teacher, "pair.teacher", params, folder, "pair_teacher")


def _write(folder: Path, part: str, labelling: Labelling) -> None:
    write_table(folder / f"{part}.parquet", EXAMPLES, [labelling.examples.to_arrow()])
    write_table(folder / f"{part}_targets.parquet", TARGETS, [labelling.targets.to_arrow()])


if __name__ == "__main__":
    run(main, shared=True)
