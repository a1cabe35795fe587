"""train_dual_encoder NAME: a dual-encoder by Eq. 2 or PAIR's Eq. 6, from the base model or from a trained one."""

from pathlib import Path

from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import title_of
from gnn_encoder.pipeline.training import logged_counts, open_dev
from gnn_encoder.training.contrastive import Texts
from gnn_encoder.training.dual_encoder import ContrastiveTask, dev_score
from gnn_encoder.training.examples import read_examples, stream
from gnn_encoder.training.loop import fit_evenly, write_history


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
    encoder.freeze_lower(params.encoder.frozen_layers)
    queries, size = Path(item.get("queries", project.queries("train"))), params.encoder.batch_tokens
    texts = Texts(encoder, open_queries(queries, encoder), open_passages(encoder), batch_tokens=size)
    task = ContrastiveTask(
        encoder,
        texts,
        examples.weighed(logged_counts(queries)),
        settings,
        seed=stream(params.seed, item["section"]),
        score=dev_score(encoder, texts, open_dev(encoder, params.dev), size),
        alpha=settings.alpha if item.get("passage_centric") else 0.0,
    )
    history = fit_evenly(
        task,
        encoder,
        stage.scratch / WORK,
        settings,
        name="contrastive",
        title=title_of(stage.key),
        seed=params.seed,
        evaluations=params.dev.evaluations,
    )
    encoder.save(stage.scratch)
    write_history(stage.scratch / "history.csv", history)


if __name__ == "__main__":
    run(main, shared=True)
