"""dual_cross_pretrain SYSTEM: a Dual-Cross-Encoder, or its DPR baseline, trained on generated questions."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.dual_cross.two_stages import pretrain


def main() -> None:
    """Train from the base model with in-batch negatives."""
    params = load_params()
    system = project.chosen(sys.argv[1:], project.DUAL_CROSS_SYSTEMS)
    section = params.dual_cross
    sections = {
        "encoder": params.encoder,
        "pretrain": section.pretrain,
        "views": section.views,
        "shared": section.shared,
        "beside": section.beside,
        "max_length": section.max_length,
        "questions": section.questions,
        "seed": params.seed,
    }
    with output(project.pretrained(system), [project.PASSAGES, project.GENERATED], sections) as scratch:
        pretrain(system, params, scratch)


if __name__ == "__main__":
    run(main)
