"""train_dual_cross NAME: Dual-Cross-Encoder or its DPR baseline, trained in two stages (section 3.5)."""

from gnn_encoder.dual_cross.two_stages import finetune, pretrain
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import title_of


def main(stage: Stage) -> None:
    """Pre-train the base model on generated queries; fine-tune it on labelled ones."""
    params, title, paired = stage.params, title_of(stage.key), stage.item == "paired"
    start = stage.once("pretrained", lambda folder: pretrain(params, folder, paired=paired, title=title))
    finetune(params, stage.scratch, start=start, examples=project.EXAMPLES, title=title)


if __name__ == "__main__":
    run(main, shared=True)
