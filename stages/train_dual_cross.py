"""train_dual_cross NAME: one of the two training stages of Dual-Cross-Encoder or of its DPR baseline (section 3.5)."""

from pathlib import Path

from gnn_encoder.core.stage import Stage, run
from gnn_encoder.dual_cross.two_stages import finetune, pretrain


def main(stage: Stage) -> None:
    """Pre-train the base model on generated queries, or fine-tune a pre-trained model on labelled queries."""
    item = stage.item
    if item["section"] == "dual_cross.pretrain":
        pretrain(stage.params, stage.scratch, paired=item["paired"])
    else:
        finetune(stage.params, stage.scratch, start=Path(item["start"]), examples=Path(item["examples"]))


if __name__ == "__main__":
    run(main, shared=True)
