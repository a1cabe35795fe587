"""train_no_gnn: the control, M_de trained on with the same budget and no graph (paper's "w/o GNN")."""

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.mgt.phases import train_control
from gnn_encoder.training.history import write_history

BUDGET = (
    "init",
    "gnn_epochs",
    "epochs",
    "batch_size",
    "negatives",
    "dropout",
    "warmup",
    "chunk_size",
    "evaluate_every",
    "patience",
)
WATCHED = ("dev_queries", "dev_depth")


def main() -> None:
    """Train the control and save its best weights."""
    params = load_params()
    inputs = [
        *(
            project.PASSAGES,
            project.queries("train"),
            project.qrels("train"),
            project.queries("dev"),
            project.POSITIVES,
        ),
        *(project.EXAMPLES, project.ENCODERS[params.mgt.init], project.embeddings(params.mgt.init)),
    ]
    budget = {name: getattr(params.mgt, name) for name in BUDGET + WATCHED}
    sections = {"train_no_gnn": params.train_no_gnn, "encoder": params.encoder, "seed": params.seed, "mgt": budget}
    sections |= {"answers": params.evaluate.answers}
    with output(project.NO_GNN, inputs, sections) as scratch:
        encoder, history = train_control(params, scratch)
        if distributed.is_first():
            encoder.save(scratch)
            write_history(scratch / "history.csv", history)


if __name__ == "__main__":
    run(main)
