"""dual_cross_finetune SYSTEM: a Dual-Cross-Encoder, or its DPR baseline, trained on with labelled questions."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.dual_cross.two_stages import finetune


def main() -> None:
    """Train on from the pre-trained model with hard negatives."""
    params = load_params()
    system = project.chosen(sys.argv[1:], project.DUAL_CROSS_SYSTEMS)
    inputs = [project.PASSAGES, project.queries("train"), project.qrels("train"), project.EXAMPLES, project.GENERATED]
    section = params.dual_cross
    sections = {"encoder": params.encoder, "finetune": section.finetune, "beside": section.beside, "seed": params.seed}
    with output(project.ENCODERS[system], [*inputs, project.pretrained(system)], sections) as scratch:
        finetune(system, params, scratch)


if __name__ == "__main__":
    run(main)
