"""pair_teacher: the cross-encoder that makes pseudo-labels (PAIR, section 3.3)."""

import shutil

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.training.cross_encoder import train_cross_encoder


def main() -> None:
    """Train one of `pair.teacher`, or take that of train_cross_encoder."""
    params = load_params()
    settings = params.pair.teacher
    inputs = [
        project.PASSAGES,
        project.queries("train"),
        project.qrels("train"),
        project.CANDIDATES,
        project.CROSS_ENCODER,
    ]
    sections = {"encoder": params.encoder, "teacher": settings, "seed": params.seed}
    with output(project.PAIR_TEACHER, inputs, sections) as scratch:
        if settings is not None:
            train_cross_encoder(settings, "pair.teacher", params, scratch)
        elif distributed.is_first():
            shutil.copytree(project.CROSS_ENCODER, scratch, dirs_exist_ok=True)


if __name__ == "__main__":
    run(main)
