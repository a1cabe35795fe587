"""train_no_gnn: the control: M_de trained further, but without a graph (the paper's "w/o GNN")."""

from gnn_encoder.base import distributed
from gnn_encoder.gnn.train import Setup, train_control
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import CONTROL, MAIN
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system
from gnn_encoder.text.corpus import load_encoder, open_queries, origin_of, same_encoder, write_matrix
from gnn_encoder.train.loop import HISTORY, write_history


def main(stage: Stage) -> None:
    """Train the control, encode the passages by its best weights, index them and search."""
    params, base = stage.params, project.base(MAIN)
    places = (f(CONTROL) for f in (project.encoder, project.embeddings, project.index, project.runs))
    model, matrix, index, runs = map(stage.unfinished, places)
    setup = Setup(base, params)
    history = train_control(setup, open_queries(project.queries("train"), setup.encoder), stage.work)
    setup.encoder.save(model)
    write_history(model / HISTORY, history)
    distributed.barrier()
    encoder, encoded = load_encoder(model, params.encoder), same_encoder(model, project.embeddings(base))
    write_matrix(encoder, matrix, params, origin_of(model, project.PASSAGES), encoded=encoded)
    if distributed.is_first():
        with distributed.alone():
            index_system(encoder, CONTROL, matrix, index, runs, params)
    distributed.barrier()


if __name__ == "__main__":
    run(main, shared=True)
