"""encode_corpus SYSTEM: the query-interactive embeddings h'_p of all passages (Eq. 6-10 over the full graph)."""

from gnn_encoder.core.storage.arrays import Origin
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, inform_corpus
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Encode the passages, and apply the GNN to their embeddings."""
    model = project.gnn(stage.key)
    origin = Origin(model_fingerprint=fingerprint(model), input_fingerprint=fingerprint(*stage.inputs))
    inform_corpus(GraphArtifacts(name=stage.key), model, stage.scratch, stage.params, origin)


if __name__ == "__main__":
    run(main, shared=True)
