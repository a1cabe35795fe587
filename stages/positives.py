"""positives: relevant passages of the dev questions: the judged ones or, where answers judge, BM25's best one."""

import logging

import polars as pl

from gnn_encoder.answers.pairs import judged_by_answers
from gnn_encoder.answers.positives import best_answered
from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.records import QRELS, open_table
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import count_rows, write_table
from gnn_encoder.evaluation.runs import read_run

log = logging.getLogger(__name__)


def main() -> None:
    """Write them as judgements: what watches training, and what generated questions are compared on."""
    kind = load_params().evaluate.answers
    questions, bm25 = project.queries("dev"), project.run_file("bm25", "dev")
    inputs = [project.PASSAGES, questions, project.qrels("dev"), bm25]
    with output(project.POSITIVES.parent, inputs, {"answers": kind}) as scratch:
        if distributed.is_first():
            table = pl.DataFrame(open_table(project.qrels("dev"), QRELS).read())
            if judged_by_answers(questions):
                table = best_answered(read_run(bm25), questions, project.PASSAGES, kind)
                log.info("%d of %d dev questions have a passage with an answer", len(table), count_rows(questions))
            write_table(scratch / project.POSITIVES.name, QRELS, [table.to_arrow()])


if __name__ == "__main__":
    run(main)
