"""untouched: the base model as it comes, without any training: its passages, its index and its runs."""

from gnn_encoder.base import distributed
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import load_encoder, write_matrix
from gnn_encoder.pipeline.project import UNTOUCHED
from gnn_encoder.pipeline.runs import write_runs
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import build
from gnn_encoder.text.corpus import origin_of
from gnn_encoder.text.encoder import DualEncoder


def main(stage: Stage) -> None:
    """Save the base model with its own pooling and similarity, encode every passage, build the index and search it."""
    params, factory = stage.params, stage.params.index.factory
    places = (project.encoder(UNTOUCHED), project.embeddings(UNTOUCHED), project.index(UNTOUCHED))
    model, matrix, index = map(stage.unfinished, places)
    DualEncoder.untouched(params.encoder).save(model)
    distributed.barrier()
    encoder = load_encoder(model, params.encoder)
    write_matrix(encoder, matrix, params, origin_of(model, project.PASSAGES))
    if distributed.is_first():
        with distributed.alone():
            build(matrix, index, factory=factory, pids=project.PASSAGES, system=UNTOUCHED, seed=params.seed)
            write_runs(encoder, index, stage.unfinished(project.runs(UNTOUCHED)), params)


if __name__ == "__main__":
    run(main, shared=True)
