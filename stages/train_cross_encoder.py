"""train_cross_encoder: M_ce on labelled positives against the first retriever's candidates (section 3.4)."""

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.training.cross_encoder import train_cross_encoder


def main() -> None:
    """Train and save the cross-encoder."""
    params = load_params()
    settings = params.train_cross_encoder
    inputs = [project.PASSAGES, project.queries("train"), project.qrels("train"), project.CANDIDATES]
    sections = {"encoder": params.encoder, "train_cross_encoder": settings, "seed": params.seed}
    with output(project.CROSS_ENCODER, inputs, sections) as scratch:
        train_cross_encoder(settings, "train_cross_encoder", params, scratch)


if __name__ == "__main__":
    run(main)
