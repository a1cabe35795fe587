"""train_cross_encoder NAME: M_ce, or PAIR's teacher, on labelled positives against mined candidates (section 3.4)."""

import shutil

from gnn_encoder.core import distributed
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.training.cross_encoder import train_cross_encoder


def main(stage: Stage) -> None:
    """Train with the parameters of the section that dvc.yaml names; if that is null, copy M_ce unchanged."""
    section = stage.item["section"]
    settings = stage.params.value(section)
    if settings is not None:
        train_cross_encoder(settings, section, stage.params, stage.scratch, stage.key)
    elif distributed.is_first():
        shutil.copytree(project.CROSS_ENCODER, stage.scratch, dirs_exist_ok=True)


if __name__ == "__main__":
    run(main, shared=True)
