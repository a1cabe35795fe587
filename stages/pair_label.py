"""pair_label: the teacher's pseudo-labels for unlabelled and labelled queries (PAIR, section 3.3, Table 5)."""

import logging
import shutil
from typing import Any

from gnn_encoder.core import distributed, project
from gnn_encoder.core.records import EXAMPLES, UNLABELLED
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import count_rows, write_table
from gnn_encoder.pair.labelling import label_labelled, label_unlabelled

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Write the examples of pre-training and of fine-tuning, and queries.parquet, the queries of pre-training."""
    params, queries = stage.params, project.queries("train")
    pretraining, counts = label_labelled(params, stage.work / "labelled")
    write_table(stage.scratch / "finetune.parquet", EXAMPLES, [pretraining.to_arrow()])
    quality = dict[str, Any]()
    if params.pair.pseudo_labels and count_rows(project.queries(UNLABELLED)):
        queries = project.queries(UNLABELLED)
        pretraining, quality = label_unlabelled(queries, params, stage.work / "unlabelled")
    elif params.pair.pseudo_labels:
        log.info(
            "there are no unlabelled queries: PAIR pre-trains on the labelled ones. Name a file of your own in "
            "data.unlabelled, or let data.train_queries leave some out for pair.unlabelled_fraction"
        )
    write_table(stage.scratch / "pretrain.parquet", EXAMPLES, [pretraining.to_arrow()])
    if distributed.is_first():
        shutil.copyfile(queries, stage.scratch / "queries.parquet")
    write_json(stage.scratch / "statistics.json", {"unlabelled": quality, "labelled": counts})


if __name__ == "__main__":
    run(main, shared=True)
