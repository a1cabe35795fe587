"""train_dual_encoder NAME: a dual-encoder by Eq. 2 or PAIR's Eq. 6, from the base model or from a trained one."""

from pathlib import Path

from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.dual_encoder import open_texts, train_dual_encoder
from gnn_encoder.train.examples import open_examples


def main(stage: Stage) -> None:
    """Train on the examples and with the section of params.yaml that dvc.yaml names."""
    params, item = stage.params, stage.item
    section, start = item["section"], Path(item["start"])
    settings, queries = params.value(section), Path(item.get("queries", project.queries("train")))
    if start == project.PASSAGES:
        encoder = DualEncoder.from_pretrained(params.encoder)
    else:
        encoder = DualEncoder.load(start, dropout=params.encoder.dropout, precision=params.encoder.precision)
    own = Path(item["own"]) if "own" in item else "train"
    examples = open_examples(Path(item["examples"]), queries, own, scored=True)
    texts = open_texts(encoder, queries, params.encoder)
    how = {"title": project.title_of(stage.key), "alpha": settings.alpha if item.get("passage_centric") else 0.0}
    train_dual_encoder(texts, examples, section, params, stage.scratch, **how)


if __name__ == "__main__":
    run(main, shared=True)
