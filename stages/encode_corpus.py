"""encode_corpus: the query-interactive embeddings h'_p of all passages (Eq. 6-10 over the full graph)."""

from gnn_encoder.base.files import fingerprint
from gnn_encoder.base.matrix import Origin
from gnn_encoder.gnn.neighbourhood import open_informer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import write_matrix


def main(stage: Stage) -> None:
    """Encode the passages with the jointly trained encoder, and turn each h_p into h'_p."""
    params = stage.params
    origin = Origin(model_fingerprint=fingerprint(project.GNN), input_fingerprint=fingerprint(*stage.inputs))
    inform, encoder, encoded = open_informer(params)
    write_matrix(encoder, stage.scratch, params, origin, encoded=encoded, transform=inform)


if __name__ == "__main__":
    run(main, shared=True)
