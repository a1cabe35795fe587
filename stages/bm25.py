"""bm25: lexical candidates of the training questions, and runs of the dev and test questions."""

from gnn_encoder.bm25 import BM25Index, candidates, write_bm25_run
from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.records import CANDIDATES
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import write_table


def main() -> None:
    """Run the stage."""
    params = load_params()
    inputs = [project.PASSAGES, *map(project.queries, ("train", "dev", "test"))]
    with output(project.BM25, inputs, {"bm25": params.bm25, "retrieve": params.retrieve}) as scratch:
        index = BM25Index(project.PASSAGES, params.bm25)
        found = candidates(index, project.queries("train"), params.bm25.depth)
        write_table(scratch / "candidates.parquet", CANDIDATES, found)
        for split in project.JUDGED:
            name = project.run_file("bm25", split).name
            write_bm25_run(index, project.queries(split), project.PASSAGES, params.retrieve.depth, scratch / name)


if __name__ == "__main__":
    run(main)
