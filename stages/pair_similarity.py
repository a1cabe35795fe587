"""pair_similarity: mean s(p+, q) and s(p+, p-) with and without the passage-centric loss (PAIR, Figure 4)."""

import logging

import numpy as np
import polars as pl

from gnn_encoder.answers.matching import Kind
from gnn_encoder.answers.pairs import answered, judged_by_answers
from gnn_encoder.answers.positives import DEPTH
from gnn_encoder.core import project
from gnn_encoder.core.judgements import relevant_pairs, with_rows
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.arrays import gather, open_matrix
from gnn_encoder.core.storage.atomic import publish_files, write_json
from gnn_encoder.encoders.corpus import embed_questions
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_queries
from gnn_encoder.evaluation.runs import read_run
from gnn_encoder.pair.similarity import similarities, triples
from gnn_encoder.presenting.figure import write_png
from gnn_encoder.presenting.similarity import similarity_panel

log = logging.getLogger(__name__)


def main() -> None:
    """On the dev questions; hard negatives are the first retriever's, the same for both encoders."""
    params = load_params()
    systems = project.PAIR_SYSTEMS
    run_file = project.run_file("retriever", "dev")
    inputs = [
        *(project.PASSAGES, project.queries("dev"), project.POSITIVES, run_file),
        *(project.ENCODERS[system] for system in systems),
        *(project.embeddings(system) for system in systems),
    ]
    kind = params.evaluate.answers
    with output(project.PAIR_SIMILARITY, inputs, {"precision": params.encoder.precision, "answers": kind}) as scratch:
        pairs = relevant_pairs(project.queries("dev"), project.POSITIVES, project.PASSAGES)
        chosen = triples(pairs, negatives(read_run(run_file), kind))
        positive, negative = (chosen[name].to_numpy().astype(np.int64) for name in ("passage", "negative"))
        found = {}
        for system in systems:
            encoder = DualEncoder.load(project.ENCODERS[system], precision=params.encoder.precision).for_inference()
            questions = open_queries(project.queries("dev"), encoder)
            rows = chosen["query"].to_numpy().astype(np.int64)
            queries = embed_questions(encoder, questions, params.encoder.batch_tokens, rows)
            matrix = open_matrix(project.embeddings(system))
            vectors = (gather(matrix, rows).astype(np.float32) for rows in (positive, negative))
            found[system] = similarities(queries, *vectors)
            log.info("%s: %s", system, ", ".join(f"{name} {value:.3f}" for name, value in found[system].items()))
        write_json(scratch / "similarity.json", found)
        plots = scratch / WORK / "plots"
        write_png(plots / "similarity.png", [similarity_panel(found)])
        publish_files(plots, project.PLOTS / "pair")


def negatives(found: pl.DataFrame, kind: Kind) -> pl.DataFrame:
    """What the run found, as rows: columns query, passage, rank; where answers judge, only what holds none."""
    questions = project.queries("dev")
    by_answers = judged_by_answers(questions)
    if by_answers:
        found = found.filter(pl.col("rank") <= DEPTH)
    rows = with_rows(found, questions, project.PASSAGES).select("query", "passage", "rank")
    if not by_answers:
        return rows
    return rows.join(answered(rows, questions, project.PASSAGES, kind), on=["query", "passage"], how="anti")


if __name__ == "__main__":
    run(main)
