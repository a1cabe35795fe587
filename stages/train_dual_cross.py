"""train_dual_cross NAME: one of the two training stages of Dual-Cross-Encoder or of its DPR baseline (section 3.5)."""

from pathlib import Path

from gnn_encoder.dual_cross.two_stages import finetune, pretrain
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import title_of


def main(stage: Stage) -> None:
    """Pre-train the base model on generated queries, or fine-tune a pre-trained model on labelled queries."""
    item, title = stage.item, title_of(stage.key)
    if item["section"] == "dual_cross.pretrain":
        pretrain(stage.params, stage.scratch, paired=item["paired"], title=title)
    else:
        start, examples = Path(item["start"]), Path(item["examples"])
        finetune(stage.params, stage.scratch, start=start, examples=examples, title=title)


if __name__ == "__main__":
    run(main, shared=True)
