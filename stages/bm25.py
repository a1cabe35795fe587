"""bm25: BM25's runs of the dev and test queries, and the examples that the first retriever trains on."""

import polars as pl
import pyarrow as pa

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.records import EXAMPLES
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.index.bm25 import BM25Index, candidates, write_bm25_run
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import LEXICAL
from gnn_encoder.training.examples import examples_from_candidates


def main(stage: Stage) -> None:
    """Search the index. Labelled passages become positives, the other candidates negatives."""
    params = stage.params
    index = BM25Index.open(project.index(LEXICAL))
    found = pl.DataFrame(pa.concat_tables(candidates(index, project.queries("train"), params.bm25.depth)))
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    write_table(stage.scratch / "examples.parquet", EXAMPLES, [examples_from_candidates(pairs, found).to_arrow()])
    for split in project.JUDGED:
        path = stage.scratch / project.run_file(LEXICAL, split).name
        write_bm25_run(index, project.queries(split), project.PASSAGES, params.retrieve.depth, path)


if __name__ == "__main__":
    run(main)
