"""train_dual_encoder NAME: a dual-encoder by Eq. 2 or PAIR's Eq. 6, from the base model or from a trained one."""

from pathlib import Path

from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import title_of
from gnn_encoder.training.contrastive import QUERY_CENTRIC, PassageCentric
from gnn_encoder.training.dual_encoder import train_dual_encoder
from gnn_encoder.training.examples import read_examples


def main(stage: Stage) -> None:
    """Train on the examples and with the section of params.yaml that dvc.yaml names."""
    params, item = stage.params, stage.item
    settings, start = params.value(item["section"]), Path(item["start"])
    if start == project.PASSAGES or getattr(settings, "init", "") == "base":
        shared = params.pair.shared if item["section"].startswith("pair.") else params.encoder.shared
        encoder = DualEncoder.from_pretrained(params.encoder.model_copy(update={"shared": shared}))
    else:
        encoder = DualEncoder.load(start, dropout=params.encoder.dropout, precision=params.encoder.precision)
    examples = read_examples(Path(item["examples"]), count_rows(project.PASSAGES))
    if getattr(settings, "targets", "labels") == "teacher":
        examples = examples.taught(Path(item["targets"]), settings.teacher_weight)
    centred = QUERY_CENTRIC
    if item.get("passage_centric"):
        centred = PassageCentric(settings.alpha, settings.passage_centric_negatives)
    queries = Path(item.get("queries", project.queries("train")))
    how = {"section": item["section"], "queries": queries, "title": title_of(stage.key)}
    train_dual_encoder(encoder, examples, params, stage.scratch, **how, passage_centric=centred)


if __name__ == "__main__":
    run(main, shared=True)
