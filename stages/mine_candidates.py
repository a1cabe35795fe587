"""mine_candidates: the first retriever's top passages of every training question (section 3.4)."""

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.records import CANDIDATES
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import candidates_table, write_table
from gnn_encoder.retrieval import top_passages


def main() -> None:
    """Search the first retriever's passage matrix, exactly."""
    params = load_params()
    inputs = [project.queries("train"), project.RETRIEVER, project.embeddings("retriever")]
    with output(project.CANDIDATES, inputs, {"mine_candidates": params.mine_candidates}) as scratch:
        passages, scores = top_passages(
            "retriever",
            project.queries("train"),
            params.mine_candidates.depth,
            params,
            section="mine_candidates",
            parameter="depth",
        )
        write_table(scratch / "candidates.parquet", CANDIDATES, [candidates_table(passages, scores)])


if __name__ == "__main__":
    run(main)
