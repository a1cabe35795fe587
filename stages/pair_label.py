"""pair_label: the teacher's pseudo-labels for unlabelled and labelled queries (PAIR, section 3.3, Table 5)."""

import shutil
from pathlib import Path
from typing import Any

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import Params
from gnn_encoder.core.records import EXAMPLES, UNLABELLED
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.pair.labelling import label_labelled, label_unlabelled
from gnn_encoder.pair.unlabelled import own_file, write_queries


def main(stage: Stage) -> None:
    """Write the examples of pre-training and of fine-tuning, and queries.parquet, the queries of pre-training."""
    params, queries = stage.params, stage.scratch / "queries.parquet"
    if params.pair.pseudo_labels:
        write_queries(queries, project.queries(UNLABELLED), own_file(params.pair.unlabelled))
    elif distributed.is_first():
        shutil.copyfile(project.queries("train"), queries)
    labelled, counts = label_labelled(params, stage.work / "labelled")
    pretraining, quality = labelled, dict[str, Any]()
    if params.pair.pseudo_labels:
        pretraining, quality = label_unlabelled(queries, params, stage.work / "unlabelled")
    write_table(stage.scratch / "finetune.parquet", EXAMPLES, [labelled.to_arrow()])
    write_table(stage.scratch / "pretrain.parquet", EXAMPLES, [pretraining.to_arrow()])
    write_json(stage.scratch / "statistics.json", {"unlabelled": quality, "labelled": counts})


def own_files(params: Params) -> list[Path]:
    """The user's file of unlabelled queries, if there is one."""
    own = own_file(params.pair.unlabelled)
    return [own] if own else []


if __name__ == "__main__":
    run(main, shared=True, own_files=own_files)
