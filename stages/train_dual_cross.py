"""train_dual_cross NAME: Dual-Cross-Encoder or its DPR baseline, on generated queries, then on labelled ones."""

from pathlib import Path

from gnn_encoder.core.stage import Stage, run
from gnn_encoder.dual_cross.two_stages import finetune, pretrain


def main(stage: Stage) -> None:
    """Train the base model on generated queries, or on from there with labelled ones."""
    item = stage.item
    if item["section"] == "dual_cross.pretrain":
        pretrain(stage.params, stage.scratch, paired=item["paired"])
    else:
        finetune(stage.params, stage.scratch, start=Path(item["start"]), examples=Path(item["examples"]))


if __name__ == "__main__":
    run(main, shared=True)
