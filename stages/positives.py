"""positives: the relevant passages of the dev queries.

These are the judged ones or, in data that are judged by answers, the best passage of BM25 that holds an answer. The dev
score during training and the quality of generated queries are measured with them.
"""

import logging

import polars as pl

from gnn_encoder.answers.pairs import judged_by_answers
from gnn_encoder.answers.positives import best_answered
from gnn_encoder.core import project
from gnn_encoder.core.records import QRELS, open_table
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.core.storage.tables import count_rows, write_table
from gnn_encoder.evaluation.runs import read_run

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Write the relevant passages as a qrels table."""
    queries = project.queries("dev")
    table = pl.DataFrame(open_table(project.qrels("dev"), QRELS).read())
    if judged_by_answers(queries):
        run_of_bm25 = read_run(project.run_file("bm25", "dev"))
        table = best_answered(run_of_bm25, queries, project.PASSAGES, stage.params.evaluate.answers)
        log.info("%d of %d dev queries have a passage with an answer", len(table), count_rows(queries))
    write_table(stage.scratch / project.POSITIVES.name, QRELS, [table.to_arrow()])


if __name__ == "__main__":
    run(main)
